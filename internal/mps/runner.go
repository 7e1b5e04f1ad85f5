package mps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// A Command is one run of a program.
type Command struct {
	Path  string
	Args  []string
	Env   []string // beside that of the agent
	Stdin string
}

// A Runner runs programs.
type Runner interface {
	// Run returns what a program wrote to its standard output. An error holds
	// what it wrote to the other one.
	Run(ctx context.Context, c Command) (string, error)
}

// Exec runs programs of the machine. Dir is looked into before the PATH.
type Exec struct {
	Dir string
}

// Run starts the program and waits for its end. A daemon that it leaves behind
// is not waited for.
func (e Exec) Run(ctx context.Context, c Command) (string, error) {
	path := c.Path
	if e.Dir != "" {
		path = e.Dir + "/" + c.Path
	}
	cmd := exec.CommandContext(ctx, path, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stdin = strings.NewReader(c.Stdin)
	// Files and not pipes: the daemon inherits them, and a pipe would be waited
	// for until it ends.
	out, err := os.CreateTemp("", "kerf-mps")
	if err != nil {
		return "", err
	}
	defer func() { _ = errors.Join(out.Close(), os.Remove(out.Name())) }()
	said, err := os.CreateTemp("", "kerf-mps")
	if err != nil {
		return "", err
	}
	defer func() { _ = errors.Join(said.Close(), os.Remove(said.Name())) }()
	cmd.Stdout, cmd.Stderr = out, said
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(said.Name()) // only to say more
		if text = bytes.TrimSpace(text); len(text) > 0 {
			return "", fmt.Errorf("%s: %w: %s", c.Path, err, text)
		}
		return "", fmt.Errorf("%s: %w", c.Path, err)
	}
	text, err := os.ReadFile(out.Name())
	return string(text), err
}

// fileContext is the SELinux context of what containers may use.
const fileContext = "system_u:object_r:container_file_t:s0"

// label lets containers use a directory where SELinux is on.
func label(dir string) error {
	if _, err := os.Stat("/sys/fs/selinux/enforce"); err != nil {
		return nil
	}
	err := unix.Setxattr(dir, "security.selinux", append([]byte(fileContext), 0), 0)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}
