package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// loadFences reads the fences of before; no file means that there are none.
func loadFences(file string) ([]Fence, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read fences: %w", err)
	}
	var out []Fence
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("read fences in %s: %w", file, err)
	}
	return out, nil
}

// saveFences replaces the file as a whole, so that a full disk or a crash leaves
// the one of before.
func saveFences(file string, fences []Fence) error {
	if file == "" {
		return nil
	}
	data, err := json.MarshalIndent(fences, "", "  ")
	if err != nil {
		return fmt.Errorf("write fences: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("write fences: %w", err)
	}
	next := file + ".next"
	if err := os.WriteFile(next, append(data, '\n'), 0o644); err != nil {
		return errors.Join(fmt.Errorf("write fences: %w", err), os.Remove(next))
	}
	if err := os.Rename(next, file); err != nil {
		return fmt.Errorf("write fences: %w", err)
	}
	return nil
}
