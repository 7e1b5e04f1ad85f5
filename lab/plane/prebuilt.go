package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// poll is the pause between two looks at something that is coming up.
const poll = 50 * time.Millisecond

// newRunner runs the programs in the folder of assets, or what is linked in
// when there is none.
func newRunner(assets, logs string) (runner, error) {
	if assets == "" {
		return newInProcess(logs)
	}
	var missing []string
	for _, name := range []string{etcd, apiServer, controllerManager, scheduler} {
		if _, err := exec.LookPath(filepath.Join(assets, name)); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("no program %s in %s; put it there, or leave the folder out (unset KUBEBUILDER_ASSETS) to use what is linked in",
			strings.Join(missing, ", "), assets)
	}
	return prebuilt{assets, logs}, nil
}

// prebuilt runs the components as child processes.
type prebuilt struct{ dir, logs string }

func (r prebuilt) close() error { return nil }

func (r prebuilt) etcd(ctx context.Context, dir string) (*process, string, error) {
	clients, err := freeAddress()
	if err != nil {
		return nil, "", err
	}
	peers, err := freeAddress()
	if err != nil {
		return nil, "", err
	}
	url := "http://" + clients
	p, err := r.launch(etcd, []string{
		"--data-dir=" + dir,
		"--listen-client-urls=" + url,
		"--advertise-client-urls=" + url,
		"--listen-peer-urls=http://" + peers,
		"--unsafe-no-fsync",
		"--log-level=warn",
	})
	if err != nil {
		return nil, "", err
	}
	for !healthy(ctx, url+"/health") {
		select {
		case <-time.After(poll):
		case <-p.done:
			return nil, "", p.err
		case <-ctx.Done():
			p.stop()
			<-p.done
			return nil, "", ctx.Err()
		}
	}
	return p, url, nil
}

func (r prebuilt) apiServer(l net.Listener, flags []string) (*process, error) {
	if err := l.Close(); err != nil { // the flags name its port
		return nil, fmt.Errorf("freeing the port: %w", err)
	}
	return r.launch(apiServer, flags)
}

func (r prebuilt) client(name string, flags []string) (*process, error) { return r.launch(name, flags) }

// launch starts a program in a process group of its own: Ctrl-C reaches us, and
// we end the components in their order.
func (r prebuilt) launch(name string, flags []string) (*process, error) {
	file := filepath.Join(r.logs, name+".log")
	log, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	cmd := exec.Command(filepath.Join(r.dir, name), flags...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	p := &process{name: name, done: make(chan struct{})}
	p.stop = func() { _ = cmd.Process.Signal(syscall.SIGTERM) } // fails only when it has ended
	go func() {
		defer close(p.done)
		p.err = errors.Join(cmd.Wait(), log.Close())
		if p.err == nil {
			p.err = errors.New("exit status 0")
		}
		p.err = fmt.Errorf("%w; see %s", p.err, file)
	}()
	return p, nil
}

// freeAddress is a loopback address that nobody listened on a moment ago.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

func healthy(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}
