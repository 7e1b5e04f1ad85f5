// Package fakekubelet is the kubelet's side of the device plugin API v1beta1
// over real sockets, for tests and for checks on machines without a kubelet: it
// accepts registrations, follows each plugin's list, and asks for devices as a
// kubelet would.
package fakekubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// A Kubelet is a running fake. Its methods may be called at the same time.
type Kubelet struct {
	v1beta1.UnimplementedRegistrationServer
	dir    string
	server *grpc.Server
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu        sync.Mutex
	changed   chan struct{} // closed with every change
	registers []*v1beta1.RegisterRequest
	plugins   map[string]*plugin
}

// A plugin is one registered resource.
type plugin struct {
	endpoint string
	conn     *grpc.ClientConn
	devices  []*v1beta1.Device
	lists    int  // received so far
	ended    bool // the plugin closed the stream
}

// Start listens on kubelet.sock in a directory and removes what stands there.
func Start(dir string) (*Kubelet, error) {
	path := filepath.Join(dir, "kubelet.sock")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("start the fake kubelet: %w", err)
	}
	k := &Kubelet{dir: dir, server: grpc.NewServer(), changed: make(chan struct{}), plugins: map[string]*plugin{}}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	v1beta1.RegisterRegistrationServer(k.server, k)
	k.work.Go(func() { _ = k.server.Serve(l) })
	return k, nil
}

// Stop ends the fake and its connections, and removes its socket.
func (k *Kubelet) Stop() {
	k.cancel()
	k.server.Stop()
	k.work.Wait()
	for _, p := range k.plugins {
		_ = p.conn.Close()
	}
}

// Register implements the registration API: it dials back and follows the list.
// Like a kubelet it refuses a socket of which it does not know yet that it ended.
func (k *Kubelet) Register(_ context.Context, req *v1beta1.RegisterRequest) (*v1beta1.Empty, error) {
	if req.Version != v1beta1.Version {
		return nil, fmt.Errorf("unsupported API version %q", req.Version)
	}
	conn, err := grpc.NewClient("unix://"+filepath.Join(k.dir, req.Endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", req.Endpoint, err)
	}
	p := &plugin{endpoint: req.Endpoint, conn: conn}
	k.mu.Lock()
	if old := k.plugins[req.ResourceName]; old != nil {
		if !old.ended && old.endpoint == req.Endpoint {
			k.mu.Unlock()
			return nil, errors.Join(fmt.Errorf("device plugin already connected: %s", req.Endpoint), conn.Close())
		}
		_ = old.conn.Close()
	}
	k.registers, k.plugins[req.ResourceName] = append(k.registers, req), p
	k.wake()
	k.mu.Unlock()
	k.work.Go(func() { k.follow(p) })
	return &v1beta1.Empty{}, nil
}

// follow keeps the list of one plugin until its stream ends.
func (k *Kubelet) follow(p *plugin) {
	stream, err := v1beta1.NewDevicePluginClient(p.conn).ListAndWatch(k.ctx, &v1beta1.Empty{})
	for err == nil {
		var list *v1beta1.ListAndWatchResponse
		if list, err = stream.Recv(); err == nil {
			k.mu.Lock()
			p.devices, p.lists = list.Devices, p.lists+1
			k.wake()
			k.mu.Unlock()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p.ended = true
	_ = p.conn.Close() // as a kubelet does
	k.wake()
}

// wake tells everyone who waits; the lock is held.
func (k *Kubelet) wake() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// Await returns when ok is true of the fake, which is asked again after every
// change, or with an error when ctx ends before.
func (k *Kubelet) Await(ctx context.Context, ok func(*Kubelet) bool) error {
	for {
		k.mu.Lock()
		changed := k.changed
		k.mu.Unlock()
		if ok(k) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the kubelet has %v after %d registrations: %w", k.Capacity(), len(k.Registrations()), ctx.Err())
		}
	}
}

// Registrations returns every registration so far.
func (k *Kubelet) Registrations() []*v1beta1.RegisterRequest {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.registers)
}

// Devices returns the last list of a resource, nil when it never came.
func (k *Kubelet) Devices(resource string) []*v1beta1.Device {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.plugins[resource]; p != nil {
		return p.devices
	}
	return nil
}

// Lists returns how many lists of a resource came over its last registration.
func (k *Kubelet) Lists(resource string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.plugins[resource]; p != nil {
		return p.lists
	}
	return 0
}

// Ended reports whether the plugin of a resource closed its stream.
func (k *Kubelet) Ended(resource string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.plugins[resource]
	return p != nil && p.ended
}

// Capacity counts the devices of each resource that has a plugin.
func (k *Kubelet) Capacity() map[string]int {
	return k.count(func(*v1beta1.Device) bool { return true })
}

// Allocatable counts the healthy devices of each resource that has a plugin.
func (k *Kubelet) Allocatable() map[string]int {
	return k.count(func(d *v1beta1.Device) bool { return d.Health == v1beta1.Healthy })
}

func (k *Kubelet) count(ok func(*v1beta1.Device) bool) map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(k.plugins)) {
		if k.plugins[name].ended {
			continue
		}
		out[name] = 0
		for _, d := range k.plugins[name].devices {
			if ok(d) {
				out[name]++
			}
		}
	}
	return out
}

// Options asks for the plugin's options.
func (k *Kubelet) Options(ctx context.Context, resource string) (*v1beta1.DevicePluginOptions, error) {
	c, err := k.client(resource)
	if err != nil {
		return nil, err
	}
	return c.GetDevicePluginOptions(ctx, &v1beta1.Empty{})
}

// Prefer asks which of the available devices are best for one container.
func (k *Kubelet) Prefer(ctx context.Context, resource string, available, required []string, size int) ([]string, error) {
	c, err := k.client(resource)
	if err != nil {
		return nil, err
	}
	resp, err := c.GetPreferredAllocation(ctx, &v1beta1.PreferredAllocationRequest{ContainerRequests: []*v1beta1.ContainerPreferredAllocationRequest{
		{AvailableDeviceIDs: available, MustIncludeDeviceIDs: required, AllocationSize: int32(size)},
	}})
	if err != nil {
		return nil, err
	}
	return resp.ContainerResponses[0].DeviceIDs, nil
}

// Allocate asks for devices for one container.
func (k *Kubelet) Allocate(ctx context.Context, resource string, ids []string) (*v1beta1.ContainerAllocateResponse, error) {
	c, err := k.client(resource)
	if err != nil {
		return nil, err
	}
	resp, err := c.Allocate(ctx, &v1beta1.AllocateRequest{ContainerRequests: []*v1beta1.ContainerAllocateRequest{{DevicesIds: ids}}})
	if err != nil {
		return nil, err
	}
	return resp.ContainerResponses[0], nil
}

func (k *Kubelet) client(resource string) (v1beta1.DevicePluginClient, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.plugins[resource]
	if p == nil {
		return nil, fmt.Errorf("no plugin has registered %s", resource)
	}
	return v1beta1.NewDevicePluginClient(p.conn), nil
}
