package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kerfdev/kerf/lab/kubelet"
	"github.com/kerfdev/kerf/lab/plane"
)

const (
	// patience is how long anything may take on a busy machine.
	patience = 3 * time.Minute
	nodeName = "gpu-1"
	// dir holds all that the machine writes; it is gone with the machine.
	dir = "/var/lib/kerf-lab"
	// driverRoot is where kerf-node finds the device nodes of the GPUs.
	driverRoot = dir + "/driver"
)

// A machine is a node with its control plane.
type machine struct {
	*testing.T
	plane   *plane.Plane
	api     *kubernetes.Clientset
	running map[string]*process // by name
	began   time.Time
}

// boot starts the control plane and containerd, with the images in it.
func boot(t *testing.T) *machine {
	m := &machine{T: t, running: map[string]*process{}, began: time.Now()}
	for _, d := range []string{"cni", "configs", "cdi"} {
		m.must(os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	t.Cleanup(m.halt)
	m.startPlane()
	m.configure("containerd.toml", "containerd.toml")
	m.configure("pods.conflist", "cni/pods.conflist")
	m.spawn("containerd", "", "containerd", "--config", filepath.Join(dir, "containerd.toml"))
	m.until("containerd", func() error {
		_, err := os.Stat("/run/containerd/containerd.sock")
		return err
	})
	busybox, err := staticBusybox()
	m.must(err)
	images := filepath.Join(dir, "images.tar")
	m.must(writeImages(images, busybox))
	m.command("ctr", "--namespace", "k8s.io", "images", "import", images)
	return m
}

func (m *machine) startPlane() {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), patience)
	defer cancel()
	var err error
	m.plane, err = plane.Start(ctx, plane.Config{
		Dir: filepath.Join(dir, "plane"), Assets: os.Getenv("KUBEBUILDER_ASSETS"),
		APIServerFlags: []string{"--kubelet-preferred-address-types=InternalIP"}, // nothing resolves the node's name
	})
	m.must(err)
	m.api, err = kubernetes.NewForConfig(m.plane.RESTConfig())
	m.must(err)
}

// startKubelet starts the kubelet, also once more after it was stopped.
func (m *machine) startKubelet() {
	m.configure("kubelet.yaml", "kubelet.yaml")
	m.spawn("kubelet", "kubelet", "/proc/self/exe",
		"--config="+filepath.Join(dir, "kubelet.yaml"), "--kubeconfig="+m.kubeconfig("system:node:"+nodeName, "system:nodes"),
		"--hostname-override="+nodeName, "--node-ip="+kubelet.Address, "--v=2")
}

// startAgent starts kerf-node on a recorded inventory. It acts for a service
// account, with the rights of that and no more.
func (m *machine) startAgent(inventory string) {
	m.driver()
	m.must(unix.Mkfifo(m.faults(), 0o600))
	m.spawn("kerf-node", "kerf-node", "/proc/self/exe", "serve",
		"--node-name="+nodeName, "--kubeconfig="+m.kubeconfig("system:serviceaccount:kube-system:kerf-node"),
		"--inventory="+inventory, "--faults="+m.faults(), "--config-dir="+filepath.Join(dir, "configs"),
		"--dev-root="+driverRoot, "--driver-root-ctr-path="+driverRoot, "--pass-device-specs", "--device-list-strategy=envvar", // containerd knows CDI since 1.7
		"--cdi-dir="+filepath.Join(dir, "cdi"), "--state-dir="+dir, "--listen=127.0.0.1:8080")
}

// driver makes the device nodes of two GPUs, with numbers for experiments that
// no driver has (Documentation/admin-guide/devices.txt).
func (m *machine) driver() {
	m.must(os.MkdirAll(filepath.Join(driverRoot, "dev"), 0o755))
	for name, minor := range map[string]uint32{"nvidia0": 0, "nvidia1": 1, "nvidiactl": 255} {
		m.must(unix.Mknod(filepath.Join(driverRoot, "dev", name), unix.S_IFCHR|0o666, int(unix.Mkdev(60, minor))))
	}
}

func (m *machine) faults() string { return filepath.Join(dir, "faults") }

// happen makes faults happen to the GPUs, a line each.
func (m *machine) happen(lines ...string) {
	m.Helper()
	pipe, err := os.OpenFile(m.faults(), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	m.must(err)
	_, err = pipe.WriteString(strings.Join(lines, "\n") + "\n")
	m.must(errors.Join(err, pipe.Close()))
}

// configure writes a file of testdata with the machine's own paths in it.
func (m *machine) configure(from, to string) {
	m.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", from))
	m.must(err)
	own := strings.NewReplacer("@DIR@", dir, "@ADDRESS@", kubelet.Address, "@CGROUP@", cgroup(), "@PAUSE@", pauseImage, "@PLUGINS@", networkPlugins())
	m.must(os.WriteFile(filepath.Join(dir, to), []byte(own.Replace(string(text))), 0o600))
}

// kubeconfig writes one by which the administrator acts for somebody else.
func (m *machine) kubeconfig(user string, groups ...string) string {
	m.Helper()
	config, err := clientcmd.LoadFromFile(m.plane.Kubeconfig())
	m.must(err)
	for _, info := range config.AuthInfos {
		info.Impersonate, info.ImpersonateGroups = user, groups
	}
	path := filepath.Join(dir, strings.ReplaceAll(user, ":", "-")+".kubeconfig")
	m.must(clientcmd.WriteToFile(*config, path))
	return path
}

// A process is a program that the test has started.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has
	err   error         // how, then
}

func logOf(name string) string { return filepath.Join(dir, name+".log") }

// spawn starts a program; with a role that is this one.
func (m *machine) spawn(name, as, path string, args ...string) {
	m.Helper()
	out, err := os.OpenFile(logOf(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	m.must(err)
	defer out.Close()
	p := &process{cmd: exec.Command(path, args...), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	p.cmd.Env = append(os.Environ(), role+"="+as)
	m.must(p.cmd.Start())
	m.running[name] = p
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
}

// stop asks a program to end, and returns how it did.
func (m *machine) stop(name string) error {
	p := m.running[name]
	delete(m.running, name)
	if p == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // else it has ended by itself
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not end within %v of SIGTERM", name, patience)
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w", name, p.err)
	}
	return nil
}

// halt stops everything. Containers go with the machine.
func (m *machine) halt() {
	if m.Failed() {
		for _, name := range []string{"containerd", "kubelet", "kerf-node"} {
			m.Logf("the end of %s's log:\n%s", name, tail(logOf(name), 40))
		}
	}
	for _, name := range []string{"kerf-node", "kubelet", "containerd"} {
		if err := m.stop(name); err != nil {
			m.Error(err)
		}
	}
	if m.plane != nil {
		if err := m.plane.Stop(); err != nil {
			m.Error(err)
		}
	}
}

// command runs a program that ends by itself.
func (m *machine) command(name string, args ...string) {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), patience)
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		m.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// until waits for something to be so, and says what is wrong when it never is,
// or when a program has ended meanwhile.
func (m *machine) until(what string, try func() error) {
	m.Helper()
	err := try()
	for end := time.Now().Add(patience); err != nil; err = try() {
		for name, p := range m.running {
			select {
			case <-p.ended:
				m.Fatalf("waiting for %s: %s ended: %v", what, name, p.err)
			default:
			}
		}
		if time.Now().After(end) {
			m.Fatalf("waited in vain for %s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	m.Logf("%5.1f s  %s", time.Since(m.began).Seconds(), what)
}

func (m *machine) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}
