package kubelet

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Address is the node's address where Alone runs: kubelets refuse loopback's.
// It is one of those for documentation (RFC 5737).
const Address = "192.0.2.1"

// private marks the process that has its mounts to itself.
const private = "KERF_LAB_PRIVATE_MOUNTS"

// Private runs a test binary where Dir is empty and nobody else's: it starts
// itself once more in a mount namespace of its own, with an empty /var/lib, and
// returns the exit code of run there. The host is not touched. It needs root; an
// error says what is lacking, and nothing has run.
func Private(run func() int) (int, error) {
	return apart(syscall.CLONE_NEWNS, emptyVarLib, run)
}

// Alone is Private for tests that start a kubelet and containers: what they
// start, mount and send ends with run, whatever becomes of it. The processes,
// network, /var/lib, /var/log and /run are their own, and the kernel's tunables
// that a kubelet sets are copies. Cgroups are the host's. The one network
// interface is the loopback, with 127.0.0.1 and Address.
func Alone(run func() int) (int, error) {
	return apart(syscall.CLONE_NEWNS|syscall.CLONE_NEWPID|syscall.CLONE_NEWNET|syscall.CLONE_NEWIPC, ownMachine, run)
}

// apart starts the test binary once more in namespaces of its own, and there
// calls prepare and run.
func apart(namespaces uintptr, prepare func() error, run func() int) (int, error) {
	if os.Getenv(private) != "" {
		if err := prepare(); err != nil {
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the death signal follows the thread
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("a private %s needs namespaces: %w", Dir, err)
	}
	return 0, nil
}

// emptyVarLib hides the host's /var/lib behind an empty one.
func emptyVarLib() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts private: %w", err)
	}
	if err := empty("/var/lib"); err != nil {
		return err
	}
	return os.MkdirAll(Dir, 0o750)
}

// empty hides what is in a folder.
func empty(dir string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mounting an empty %s: %w", dir, err)
	}
	return nil
}

func ownMachine() error {
	if err := emptyVarLib(); err != nil {
		return err
	}
	for _, dir := range []string{"/var/log", "/run"} {
		if err := empty(dir); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc of the own processes: %w", err)
	}
	if err := copyTunables(); err != nil {
		return err
	}
	return loopback(netip.MustParseAddr(Address))
}

// tunables are what the container manager of a kubelet sets (Kubernetes 1.37,
// setupKernelTunables). They are the whole machine's.
var tunables = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// copyTunables puts plain files in the place of the kernel's.
func copyTunables() error {
	for _, name := range tunables {
		path := filepath.Join("/proc/sys", name)
		value, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading a tunable of the kernel: %w", err)
		}
		own := filepath.Join("/run", strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(own, value, 0o600); err != nil {
			return fmt.Errorf("copying a tunable of the kernel: %w", err)
		}
		if err := unix.Mount(own, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting a copy of %s: %w", path, err)
		}
	}
	return nil
}

// loopback brings the loopback interface up, with one more address.
func loopback(address netip.Addr) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bringing the loopback up: %w", err)
	}
	defer unix.Close(socket)
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, up); err != nil {
		return fmt.Errorf("bringing the loopback up: %w", err)
	}
	more, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := more.SetInet4Addr(address.AsSlice()); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFADDR, more); err != nil {
		return fmt.Errorf("giving the loopback the address %s: %w", address, err)
	}
	return nil
}
