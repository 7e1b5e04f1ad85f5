package node

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/deviceplugin/fakekubelet"
)

// A command is one `kerf-node serve` on a recorded machine.
type command struct {
	t       *testing.T
	dir     string
	kubelet *fakekubelet.Kubelet
	log     *logs
	end     func() error
}

// command starts serve with arguments beside those that keep it to dir.
func startCommand(t *testing.T, dir string, args ...string) *command {
	t.Helper()
	k, err := fakekubelet.Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := &command{t: t, dir: dir, kubelet: k, log: &logs{}}
	a := &app{Streams: Streams{Out: io.Discard, Err: c.log, Env: func(string) (string, bool) { return "", false }}}
	root := a.rootCommand()
	root.SetArgs(append([]string{
		"serve", "--kubelet-socket", filepath.Join(dir, "kubelet.sock"), "--cdi-dir", filepath.Join(dir, "cdi"),
		"--state-dir", filepath.Join(dir, "state"), "--listen=", "--pod-resources-socket=",
	}, args...))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	c.end = sync.OnceValue(func() error {
		cancel()
		defer k.Stop()
		return <-done
	})
	t.Cleanup(func() {
		if err := c.end(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(c.log)
		}
	})
	return c
}

// await waits until the kubelet may hand out n GPUs.
func (c *command) await(n int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := c.kubelet.Await(ctx, func(k *fakekubelet.Kubelet) bool { return k.Allocatable()["nvidia.com/gpu"] == n }); err != nil {
		c.t.Fatalf("waiting for %d GPUs: %v\n%s", n, err, c.log)
	}
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kerf") // socket paths have to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// The whole program: faults come in by the pipe, a fence outlives a restart, and
// a signal reloads.
func TestServeOnARecordedMachine(t *testing.T) {
	dir := shortDir(t)
	pipe := filepath.Join(dir, "faults")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	first := startCommand(t, dir, "--inventory", "a10g", "--faults", pipe)
	first.await(4)
	in, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.WriteString("xid 48 2\nno such fault\n"); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	first.await(3)
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	second := startCommand(t, dir, "--inventory", "a10g")
	second.await(3)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for !strings.Contains(second.log.String(), "told to reload") && ctx.Err() == nil {
		time.Sleep(time.Millisecond) // a log line is all there is to wait for
	}
	if ctx.Err() != nil {
		t.Errorf("SIGHUP is not heard")
	}
}

func TestServeRefuses(t *testing.T) {
	dir := shortDir(t)
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"a driver that is missing":      {args: []string{"--driver-root-ctr-path", dir}, want: "driver"},
		"an inventory that is missing":  {args: []string{"--inventory", "t5"}, want: "read inventory t5: no such file"},
		"faults of a real driver":       {args: []string{"--faults", "x"}, want: "--faults is for an --inventory"},
		"faults from nowhere":           {args: []string{"--inventory", "t4", "--faults", filepath.Join(dir, "none")}, want: "read faults: open"},
		"a class that is none":          {args: []string{"--inventory", "t4", "--xid-classes", "48=bad"}, want: "KERF_XID_CLASSES"},
		"a class that is none, by env":  {args: []string{"--inventory", "t4"}, env: map[string]string{"KERF_XID_CLASSES": "48"}, want: "KERF_XID_CLASSES"},
		"a fallback that is none":       {args: []string{"--inventory", "t4", "--fallback-strategies", "named,best"}, want: `unknown fallback strategy "best"`},
		"a strategy that is none":       {args: []string{"--inventory", "t4", "--device-list-strategy", "foo"}, want: "invalid --device-list-strategy option on the command line: invalid strategy: foo"},
		"a kubeconfig that is missing":  {args: []string{"--inventory", "t4", "--node-name", "n", "--kubeconfig", filepath.Join(dir, "none")}, want: "reach the cluster: "},
		"a config that is missing":      {args: []string{"--inventory", "t4", "--config-file", filepath.Join(dir, "none")}, want: "no such file"},
		"arguments":                     {args: []string{"now"}, want: `unknown command "now"`},
		"a folder that is missing":      {args: []string{"--inventory", "t4", "--config-dir", filepath.Join(dir, "none"), "--lenient=maybe"}, want: "invalid argument"},
		"what the plugin does not know": {args: []string{"--inventory", "t4", "--mig-strategy", "both"}, want: "unknown MIG strategy: both"},
	} {
		t.Run(name, func(t *testing.T) {
			env := func(k string) (string, bool) { v, ok := test.env[k]; return v, ok }
			a := &app{Streams: Streams{Out: io.Discard, Err: io.Discard, Env: env}}
			root := a.rootCommand()
			root.SetArgs(append([]string{"serve", "--listen=", "--kubelet-socket", filepath.Join(dir, "kubelet.sock"), "--state-dir", dir, "--cdi-dir", dir, "--pod-resources-socket="}, test.args...))
			if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

// Flags of the plugin reach it under their first names, lists as one text.
func TestGiven(t *testing.T) {
	a := &app{Streams: Streams{Env: func(string) (string, bool) { return "", false }}}
	c := a.serveCommand()
	args := []string{
		"--nvidia-driver-root=/run/nvidia/driver", "--device-list-strategy=envvar,cdi-cri", "--device-list-strategy", "volume-mounts",
		"--pass-device-specs", "--fail-on-init-error=false", "--kubelet-socket=",
	}
	if err := c.Flags().Parse(args); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"driver-root": "/run/nvidia/driver", "device-list-strategy": "envvar,cdi-cri,volume-mounts", "pass-device-specs": "true",
		"fail-on-init-error": "false", "kubelet-socket": "",
	}
	if diff := cmp.Diff(want, given(c.Flags())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
