package kubelet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// private marks the process that has its mounts to itself.
const private = "KERF_LAB_PRIVATE_MOUNTS"

// Private runs a test binary where Dir is empty and nobody else's: it starts
// itself once more in a mount namespace of its own, with an empty /var/lib, and
// returns the exit code of run there. The host is not touched. It needs root; an
// error says what is lacking, and nothing has run.
func Private(run func() int) (int, error) {
	if os.Getenv(private) != "" {
		if err := emptyVarLib(); err != nil {
			return 0, err
		}
		return run(), nil
	}
	if os.Geteuid() != 0 {
		return 0, errors.New("a private " + Dir + " needs root")
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), private+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the death signal follows the thread
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("a private %s needs a mount namespace: %w", Dir, err)
	}
	return 0, nil
}

// emptyVarLib hides the host's /var/lib behind an empty one.
func emptyVarLib() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", "/var/lib", "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mounting an empty /var/lib: %w", err)
	}
	return os.MkdirAll(Dir, 0o750)
}
