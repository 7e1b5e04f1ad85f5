package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Bounds on talking to the kubelet, which is on the same machine.
const (
	registerTimeout = 5 * time.Second
	drainTimeout    = 2 * time.Second
)

// A server serves one resource on one socket.
type server struct {
	v1beta1.UnimplementedDevicePluginServer
	manager *Manager
	name    string // of the resource

	mu      sync.Mutex
	current *state
	changed chan struct{} // closed when current is replaced
	gone    chan struct{} // closed when the streams are to end

	// What follows belongs to the manager's loop.
	path       string // of the socket
	grpc       *grpc.Server
	served     chan struct{} // closed when Serve has returned
	peers      *peers
	socket     os.FileInfo // the socket that was made
	kubelet    os.FileInfo // the kubelet's socket at which it is registered, nil for none
	registered bool
	wait       backoff
}

func newServer(m *Manager, name string, s *state) *server {
	return &server{manager: m, name: name, current: s, changed: make(chan struct{}), gone: make(chan struct{})}
}

// set replaces what is served and wakes the streams. A list that says the same
// is not sent again.
func (s *server) set(next *state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if proto.Equal(s.current.list, next.list) {
		next.list = s.current.list
	}
	s.current = next
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) get() (*state, <-chan struct{}, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current, s.changed, s.gone
}

// start makes a socket and serves on it. What stands in its place is removed:
// only an earlier plugin leaves a socket behind.
func (s *server) start(path string) error {
	s.path = path
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the old socket: %w", err)
	}
	l, err := s.manager.listen("unix", s.path)
	if err != nil {
		return fmt.Errorf("serve %s: %w", s.name, err)
	}
	if s.socket, err = os.Stat(s.path); err != nil {
		return errors.Join(fmt.Errorf("serve %s: %w", s.name, err), l.Close())
	}
	s.mu.Lock()
	s.gone = make(chan struct{})
	s.mu.Unlock()
	s.peers = &peers{}
	s.grpc, s.served = grpc.NewServer(grpc.StatsHandler(s.peers)), make(chan struct{})
	v1beta1.RegisterDevicePluginServer(s.grpc, s)
	go func(c crash, served, gone chan struct{}) {
		defer close(served)
		if c.err = c.grpc.Serve(l); c.err != nil {
			s.manager.report(c, gone)
		}
	}(crash{server: s, grpc: s.grpc}, s.served, s.gone)
	s.manager.log.Info("serving", "resource", s.name, "socket", s.path, "devices", len(s.current.resource.Devices))
	return nil
}

// stop ends the streams, waits for calls under way, and removes the socket. A
// kubelet closes its connection once it has taken note of the end; registering
// again before would cross with that.
func (s *server) stop() {
	if s.grpc == nil {
		return
	}
	s.mu.Lock()
	close(s.gone)
	s.mu.Unlock()
	s.peers.wait(drainTimeout)
	timer := time.AfterFunc(drainTimeout, s.grpc.Stop)
	s.grpc.GracefulStop()
	timer.Stop()
	<-s.served
	if s.ours() {
		_ = os.Remove(s.path) // the listener has removed it unless it was replaced meanwhile
	}
	s.grpc, s.socket, s.kubelet, s.registered = nil, nil, nil, false
}

// ours reports whether the socket is still there and the one that was made.
func (s *server) ours() bool {
	now, err := os.Stat(s.path)
	return err == nil && same(now, s.socket)
}

// same reports whether two looks at a path saw the same file. The number of a
// deleted file may come back, its time does not.
func same(a, b os.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime())
}

// register announces the resource to the kubelet whose socket is at a path.
func (s *server) register(ctx context.Context, kubelet string) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	conn, err := dial(kubelet)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = v1beta1.NewRegistrationClient(conn).Register(ctx, &v1beta1.RegisterRequest{
		Version:      v1beta1.Version,
		Endpoint:     filepath.Base(s.path),
		ResourceName: s.name,
		Options:      &v1beta1.DevicePluginOptions{GetPreferredAllocationAvailable: true},
	}, grpc.WaitForReady(false))
	if err != nil {
		return fmt.Errorf("register %s with the kubelet: %w", s.name, err)
	}
	s.manager.log.Info("registered", "resource", s.name, "kubelet", kubelet)
	return nil
}

// dial opens a connection to a local socket; it connects with the first call.
func dial(path string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", path, err)
	}
	return conn, nil
}

// GetDevicePluginOptions says that the plugin has preferences.
func (s *server) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

// PreStartContainer does nothing; the kubelet is told not to call it.
func (s *server) PreStartContainer(context.Context, *v1beta1.PreStartContainerRequest) (*v1beta1.PreStartContainerResponse, error) {
	return &v1beta1.PreStartContainerResponse{}, nil
}

// ListAndWatch sends the devices now and whenever they or their health change.
func (s *server) ListAndWatch(_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	var sent *v1beta1.ListAndWatchResponse
	for {
		now, changed, gone := s.get()
		if now.list != sent {
			if err := stream.Send(now.list); err != nil {
				return fmt.Errorf("send the devices of %s: %w", s.name, err)
			}
			sent = now.list
			continue // gone only counts once the last list is out
		}
		select {
		case <-changed:
		case <-gone:
			if last, _, _ := s.get(); last.list == sent {
				return nil
			}
		case <-stream.Context().Done():
			return nil
		}
	}
}

// GetPreferredAllocation chooses devices for each container that asks.
func (s *server) GetPreferredAllocation(_ context.Context, req *v1beta1.PreferredAllocationRequest) (*v1beta1.PreferredAllocationResponse, error) {
	now, _, _ := s.get()
	resp := &v1beta1.PreferredAllocationResponse{}
	for _, c := range req.ContainerRequests {
		ids, err := now.prefer(c.AvailableDeviceIDs, c.MustIncludeDeviceIDs, int(c.AllocationSize))
		if err != nil {
			return nil, fmt.Errorf("error getting list of preferred allocation devices: %w", err)
		}
		resp.ContainerResponses = append(resp.ContainerResponses, &v1beta1.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return resp, nil
}

// Allocate says how each container gets its devices. It waits while a config is
// being switched, so that no device is given away under the old one meanwhile.
func (s *server) Allocate(_ context.Context, req *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	began := time.Now()
	s.manager.gate.RLock()
	defer s.manager.gate.RUnlock()
	now, _, _ := s.get()
	resp := &v1beta1.AllocateResponse{}
	for _, c := range req.ContainerRequests {
		devices, err := now.check(c.DevicesIds)
		if err != nil {
			s.manager.log.Warn("allocation refused", "resource", s.name, "ids", c.DevicesIds, "error", err)
			return nil, err
		}
		resp.ContainerResponses = append(resp.ContainerResponses, now.answer(devices))
		s.manager.granted(s.name, c.DevicesIds)
	}
	s.manager.metrics.allocated(s.name, time.Since(began))
	return resp, nil
}

// backoff spaces attempts: one at once, then ever longer apart.
type backoff struct {
	next  time.Time
	delay time.Duration
}

func (b *backoff) due() bool { return !time.Now().Before(b.next) }

// failed puts the next attempt off, at first by a fiftieth of every, then twice
// as long each time, up to six times every.
func (b *backoff) failed(every time.Duration) {
	b.delay = min(max(2*b.delay, every/50), 6*every)
	b.next = time.Now().Add(b.delay)
}

func (b *backoff) reset() { *b = backoff{} }
