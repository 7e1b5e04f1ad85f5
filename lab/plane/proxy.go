package plane

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// chunk is how much the proxy passes on at a time, in bytes.
const chunk = 32 << 10

// acceptPause keeps a failing accept from spinning.
const acceptPause = 10 * time.Millisecond

// A proxy stands on loopback between clients and the API server and passes
// their encrypted bytes on, late or not at all when told so.
type proxy struct {
	listener net.Listener
	target   string // host:port of the API server

	delay atomic.Int64 // nanoseconds from the arrival of a client's bytes to their delivery

	mu   sync.Mutex
	cut  bool
	open map[*link]bool

	wg sync.WaitGroup
}

// A link is one client's connection and its counterpart to the API server.
type link struct {
	client, server net.Conn
	gone           chan struct{}
	once           sync.Once
}

// newProxy serves on the listener, which it owns from now on.
func newProxy(l net.Listener, target string) *proxy {
	p := &proxy{listener: l, target: target, open: map[*link]bool{}}
	p.wg.Go(p.accept)
	return p
}

// slow delivers what clients send d after it arrived; zero ends that.
func (p *proxy) slow(d time.Duration) { p.delay.Store(int64(d)) }

// sever resets all connections and, until heal, every new one.
func (p *proxy) sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for l := range p.open {
		l.reset()
	}
}

func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

// close frees the port and waits for all connections to end.
func (p *proxy) close() error {
	err := p.listener.Close()
	p.sever()
	p.wg.Wait()
	if err != nil {
		return fmt.Errorf("closing the proxy: %w", err)
	}
	return nil
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // most likely out of file descriptors, which passes
			time.Sleep(acceptPause)
			continue
		}
		p.wg.Go(func() { p.serve(c) })
	}
}

// serve passes on one connection until either side ends it.
func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		reset(client)
		return
	}
	l := &link{client: client, server: server, gone: make(chan struct{})}
	if !p.add(l) {
		l.reset()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.forward(&p.delay) })
	both.Go(func() {
		_, _ = io.Copy(client, server) // how it ended is the client's to see
		l.close()
	})
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, l)
}

// add notes an open link, unless the proxy is cut.
func (p *proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	p.open[l] = true
	return true
}

// A parcel is what was read at one time, to be delivered at another.
type parcel struct {
	data []byte
	due  time.Time
}

// forward passes the client's bytes to the server. Reading goes on while
// earlier bytes wait, so that requests are late and not fewer.
func (l *link) forward(delay *atomic.Int64) {
	parcels := make(chan parcel, 256)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(parcels)
		buffer := make([]byte, chunk)
		for {
			n, err := l.client.Read(buffer)
			if n > 0 {
				due := time.Now().Add(time.Duration(delay.Load()))
				select {
				case parcels <- parcel{bytes.Clone(buffer[:n]), due}:
				case <-l.gone:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	for p := range parcels {
		if !l.waitUntil(p.due) {
			break
		}
		if _, err := l.server.Write(p.data); err != nil {
			break
		}
	}
	l.close()
	reader.Wait()
}

// waitUntil reports whether the link still stands at that time.
func (l *link) waitUntil(due time.Time) bool {
	wait := time.Until(due)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.gone:
		return false
	}
}

// close ends both sides in the usual way.
func (l *link) close() {
	l.once.Do(func() {
		close(l.gone)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

// reset ends both sides as a killed process would: with a reset, not a farewell.
func (l *link) reset() {
	l.once.Do(func() {
		close(l.gone)
		reset(l.client)
		reset(l.server)
	})
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
