package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// errKind is the end of the message about a file of a kind that is not read.
var errKind = errors.New("kerf reads .yaml, .yml, .json, .tf and .tf.json files")

// Read loads the named files; of folders, every file below that may hold
// manifests, in the order of their paths, without hidden folders and
// node_modules. The path "-" is stdin. A path that does not exist, a named file
// of another kind, and a folder without any manifest are errors.
func Read(paths []string, stdin io.Reader) ([]File, error) {
	var files []File
	seen := map[string]bool{}
	for _, path := range paths {
		more, err := readPath(path, stdin)
		if err != nil {
			return nil, err
		}
		for _, f := range more {
			if key := filepath.Clean(f.Name); !seen[key] {
				seen[key] = true
				files = append(files, f)
			}
		}
	}
	return files, nil
}

func readPath(path string, stdin io.Reader) ([]File, error) {
	if path == Stdin {
		return readStdin(stdin)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: no such file or folder", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, reason(err))
	}
	if info.IsDir() {
		return readFolder(path)
	}
	if !known(path) {
		return nil, fmt.Errorf("read %s: %w", path, errKind)
	}
	f, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return []File{f}, nil
}

func readStdin(stdin io.Reader) ([]File, error) {
	if stdin == nil {
		return nil, errors.New("read standard input: there is none")
	}
	data, err := io.ReadAll(io.LimitReader(stdin, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	return []File{{Name: Stdin, Data: data}}, nil
}

// readFolder reads what known allows, in lexical order of the paths.
func readFolder(root string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("read %s: %w", path, reason(err))
		case d.IsDir():
			if path != root && skipped(d.Name()) {
				return filepath.SkipDir
			}
			return nil
		case !known(path) || !regular(path, d):
			return nil
		}
		f, err := readFile(path)
		if err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("read %s: the folder holds no manifest; %w", root, errKind)
	}
	return files, nil
}

// regular follows links to files, as ConfigMap mounts have them; links to
// folders are left alone, as they can lead in circles.
func regular(path string, d fs.DirEntry) bool {
	if d.Type().IsRegular() {
		return true
	}
	if d.Type()&fs.ModeSymlink == 0 {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func readFile(path string) (File, error) {
	in, err := os.Open(path)
	if err != nil {
		return File{}, fmt.Errorf("read %s: %w", path, reason(err))
	}
	defer in.Close()
	data, err := readAll(in)
	if err != nil {
		return File{}, fmt.Errorf("read %s: %w", path, reason(err))
	}
	return File{Name: path, Data: data}, nil
}

// readAll reads no more than is needed to see that a file is too large. Most
// files say how large they are, which saves copying them while they are read.
func readAll(in *os.File) ([]byte, error) {
	var data bytes.Buffer
	if info, err := in.Stat(); err == nil && info.Mode().IsRegular() {
		data.Grow(int(min(info.Size(), MaxSize)) + bytes.MinRead)
	}
	_, err := data.ReadFrom(io.LimitReader(in, MaxSize+1))
	return data.Bytes(), err
}

// reason drops the operation and path that os puts before the cause.
func reason(err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func skipped(name string) bool {
	return strings.HasPrefix(name, ".") || name == "node_modules"
}

// known reports whether a file of this name may hold what Kerf reads.
func known(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml", ".json", ".tf":
		return true
	}
	return false
}
