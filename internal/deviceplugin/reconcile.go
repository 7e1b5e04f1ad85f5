package deviceplugin

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// reuseAfter is how long a socket's path rests once its stream has ended.
const reuseAfter = time.Minute

// A past is what became of a socket that was registered with a kubelet.
type past struct {
	kubelet os.FileInfo
	ended   time.Time
	stuck   bool // the kubelet never lets go of it
}

// free returns a path for the socket of a resource: "nvidia-gpu.sock", or
// "nvidia-gpu~2.sock" where that one has just ended.
//
// A kubelet (1.37) to which a path is registered again before it has noticed
// that the earlier stream ended refuses it as "already connected", and then
// forgets how to let go of it. It keeps streams apart by their paths, so another
// path is always taken.
func (m *Manager) free(resource string, kubelet os.FileInfo) string {
	base := filepath.Join(m.Dir, Resource{Name: resource}.socket())
	for n := 1; ; n++ {
		path := base
		if n > 1 {
			path = fmt.Sprintf("%s~%d.sock", strings.TrimSuffix(base, ".sock"), n)
		}
		p, used := m.past[path]
		if !used || !same(p.kubelet, kubelet) || (!p.stuck && time.Since(p.ended) > reuseAfter) {
			return path
		}
	}
}

// end stops a server and remembers its path.
func (m *Manager) end(s *server) {
	if s.registered {
		m.past[s.path] = past{kubelet: s.kubelet, ended: time.Now()}
	}
	s.stop()
}

// sweep removes the sockets with numbers that an agent left which was killed.
func (m *Manager) sweep() {
	left, err := filepath.Glob(filepath.Join(m.Dir, "nvidia-*~*.sock"))
	for _, path := range left {
		if err = os.Remove(path); err != nil {
			break
		}
	}
	if err != nil {
		m.log.Warn("sockets of before are left", "error", err)
	}
}

// reconcile makes every server listen and be registered, whatever was deleted,
// replaced or restarted. now skips the wait after a failure.
func (m *Manager) reconcile(ctx context.Context, now bool) {
	kubelet := m.kubelet()
	for _, name := range slices.Sorted(maps.Keys(m.servers)) {
		s := m.servers[name]
		fresh := kubelet != nil && !same(kubelet, s.kubelet)
		if s.grpc != nil && s.ours() && (s.registered && !fresh || m.KubeletSocket == "") {
			continue
		}
		if !now && !s.wait.due() {
			continue
		}
		if err := m.revive(ctx, s, kubelet); err != nil {
			s.wait.failed(m.every)
			if ctx.Err() == nil {
				m.log.Warn("not registered", "resource", name, "error", err, "retry", s.wait.delay)
			}
			continue
		}
		s.wait.reset()
	}
	m.publish()
}

// due fires when the next failed server is to be tried again, never when none
// failed.
func (m *Manager) due() <-chan time.Time {
	var next time.Time
	for _, s := range m.servers {
		if at := s.wait.next; !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if next.IsZero() {
		return nil
	}
	return time.After(time.Until(next))
}

// revive makes one server listen and registers it.
func (m *Manager) revive(ctx context.Context, s *server, kubelet os.FileInfo) error {
	if s.grpc != nil && (!s.ours() || s.kubelet != nil) {
		m.end(s) // the kubelet forgot it, or the socket is gone
	}
	if s.grpc == nil {
		if err := s.start(m.free(s.name, kubelet)); err != nil {
			return err
		}
	}
	if m.KubeletSocket == "" {
		return nil
	}
	if kubelet == nil {
		return fmt.Errorf("the kubelet's socket %s: %w", m.KubeletSocket, fs.ErrNotExist)
	}
	if err := s.register(ctx, m.KubeletSocket); err != nil {
		if strings.Contains(err.Error(), "already connected") {
			s.stop()
			m.past[s.path] = past{kubelet: kubelet, stuck: true}
		}
		return err
	}
	s.kubelet, s.registered = kubelet, true
	return nil
}

// kubelet identifies the kubelet's socket, nil when there is none.
func (m *Manager) kubelet() os.FileInfo {
	if m.KubeletSocket == "" {
		return nil
	}
	info, err := os.Stat(m.KubeletSocket)
	if err != nil {
		return nil
	}
	return info
}
