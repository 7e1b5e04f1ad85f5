package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// groupName tells the machine's first process which cgroup is the machine's.
const groupName = "KERF_LAB_CGROUP"

// cgroup is the name of the machine's cgroup, "" outside of the machine.
func cgroup() string { return os.Getenv(groupName) }

// makeCgroup makes the machine's cgroup in every hierarchy. remove removes it
// with all that was made in it, once its processes have ended; it is there after
// an error too.
func makeCgroup(name string) (remove func() error, err error) {
	mounts, err := cgroupMounts()
	remove = func() error { return removeCgroups(mounts, name) }
	if err != nil {
		return remove, err
	}
	for _, m := range mounts {
		if m.unified && len(mounts) == 1 {
			const all = "+cpuset +cpu +memory +pids"
			if err := os.WriteFile(filepath.Join(m.dir, "cgroup.subtree_control"), []byte(all), 0o600); err != nil {
				return remove, fmt.Errorf("cgroups below %s cannot have controllers: %w", m.dir, err)
			}
		}
		if err := os.Mkdir(filepath.Join(m.dir, name), 0o755); err != nil {
			return remove, fmt.Errorf("no cgroup can be made: %w", err)
		}
	}
	return remove, os.Setenv(groupName, name)
}

// A cgroupMount is a hierarchy of cgroups.
type cgroupMount struct {
	dir     string
	unified bool // cgroup v2
}

func cgroupMounts() ([]cgroupMount, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var out []cgroupMount
	for line := range strings.Lines(string(data)) {
		before, after, _ := strings.Cut(line, " - ")
		kind, _, _ := strings.Cut(after, " ")
		if fields := strings.Fields(before); len(fields) > 4 && (kind == "cgroup" || kind == "cgroup2") {
			out = append(out, cgroupMount{dir: fields[4], unified: kind == "cgroup2"})
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no cgroups are mounted")
	}
	return out, nil
}

// removeCgroups waits a little for the kernel, which empties cgroups some time
// after their last process is gone.
func removeCgroups(mounts []cgroupMount, name string) error {
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		err = nil
		for _, m := range mounts {
			err = errors.Join(err, removeTree(filepath.Join(m.dir, name)))
		}
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("cgroups stay behind: %w", err)
}

// removeTree removes folders from the innermost outwards; the files in a cgroup
// go with it.
func removeTree(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	for _, dir := range slices.Backward(dirs) {
		err = errors.Join(err, os.Remove(dir))
	}
	return err
}
