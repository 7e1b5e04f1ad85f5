package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// patience is how long a command works before it says what it is doing.
const patience = time.Second

// progress is a line on a terminal that says what takes so long.
type progress struct {
	w     io.Writer // nil = nobody watches
	mu    sync.Mutex
	what  string
	shown bool
	timer *time.Timer
}

// newProgress starts to wait. Whoever calls it calls done.
func (a *app) newProgress(what string) *progress {
	p := &progress{what: what}
	if f, ok := terminal(a.Err); ok {
		p.start(f)
	}
	return p
}

func (p *progress) start(w io.Writer) {
	p.w = w
	p.timer = time.AfterFunc(patience, p.show)
}

func (p *progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w != nil {
		p.shown = true
		fmt.Fprintf(p.w, "\r\x1b[K%s ...", p.what)
	}
}

// step says what comes next.
func (p *progress) step(format string, args ...any) {
	p.mu.Lock()
	p.what = fmt.Sprintf(format, args...)
	shown := p.shown
	p.mu.Unlock()
	if shown {
		p.show()
	}
}

// done takes the line away; it may be called more than once.
func (p *progress) done() {
	if p.timer == nil {
		return
	}
	p.timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	p.w, p.shown = nil, false
}
