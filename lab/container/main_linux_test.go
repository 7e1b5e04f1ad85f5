package container

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // as the program does
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"

	"github.com/kerfdev/kerf/internal/node"
	"github.com/kerfdev/kerf/lab/kubelet"
	"github.com/kerfdev/kerf/lab/plane"
)

// role says which program this one is to be, other than the test; it links in
// all of them.
const role = "KERF_LAB_ROLE"

// lacking says why the tests cannot run here; "" when they can.
var lacking string

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "kubelet":
		if err := plane.SetVersion(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(cli.Run(kubeletapp.NewKubeletCommand(context.Background())))
	case "kerf-node":
		os.Exit(node.Main(os.Args[1:], node.Standard()))
	}
	os.Exit(alone(m.Run))
}

// alone runs the tests on a machine of their own, or where that cannot be as
// they are, for them to be skipped.
func alone(run func() int) (code int) {
	lacking = missing()
	if lacking == "" && cgroup() == "" {
		remove, err := makeCgroup(fmt.Sprintf("kerf-lab-%d", os.Getpid()))
		defer func() {
			if err := remove(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}()
		if err != nil {
			lacking = err.Error()
		}
	}
	if lacking != "" {
		return run()
	}
	code, err := kubelet.Alone(run)
	if err != nil {
		lacking = err.Error()
		return run()
	}
	return code
}

// missing names the first thing that a node needs and this machine lacks.
func missing() string {
	if os.Geteuid() != 0 {
		return "a node needs root"
	}
	for _, program := range []string{"containerd", "ctr", "runc", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Sprintf("no %s: install Debian's packages containerd, runc, containernetworking-plugins and busybox-static", program)
		}
	}
	if _, err := staticBusybox(); err != nil {
		return err.Error()
	}
	if networkPlugins() == "" {
		return "no network plugins: install Debian's package containernetworking-plugins"
	}
	if _, err := os.Stat("/dev/kmsg"); err != nil {
		return "kubelets read /dev/kmsg: " + err.Error()
	}
	return ""
}

// staticBusybox finds a busybox that runs in an image without libraries.
func staticBusybox() (string, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return "", err
	}
	file, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return "", fmt.Errorf("%s needs libraries: install Debian's package busybox-static", path)
		}
	}
	return path, nil
}

// networkPlugins is the folder of the CNI plugins, as Debian or others have it.
func networkPlugins() string {
	for _, dir := range []string{"/usr/lib/cni", "/opt/cni/bin"} {
		if found, _ := filepath.Glob(filepath.Join(dir, "bridge")); len(found) > 0 {
			return dir
		}
	}
	return ""
}

// tail returns the last lines of a file, for a test that failed.
func tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
