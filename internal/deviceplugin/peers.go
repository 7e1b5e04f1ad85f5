package deviceplugin

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/stats"
)

// peers counts a server's connections. It is a stats.Handler.
type peers struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when the last one has ended; nil when nobody waits
}

// TagConn implements stats.Handler.
func (p *peers) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// TagRPC implements stats.Handler.
func (p *peers) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (p *peers) HandleRPC(context.Context, stats.RPCStats) {}

// HandleConn implements stats.Handler.
func (p *peers) HandleConn(_ context.Context, s stats.ConnStats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s.(type) {
	case *stats.ConnBegin:
		p.n++
	case *stats.ConnEnd:
		p.n--
	}
	if p.n == 0 && p.none != nil {
		close(p.none)
		p.none = nil
	}
}

// wait returns when no connection is left, or after a time.
func (p *peers) wait(limit time.Duration) {
	p.mu.Lock()
	none := make(chan struct{})
	if p.n == 0 {
		close(none)
	} else {
		p.none = none
	}
	p.mu.Unlock()
	select {
	case <-none:
	case <-time.After(limit):
	}
}
