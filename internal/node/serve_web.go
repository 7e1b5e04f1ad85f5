package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A web answers over HTTP; the zero one answers nobody.
type web struct {
	server   *http.Server
	listener net.Listener
	log      *slog.Logger
}

// listen opens the address of /metrics, /healthz and /readyz.
func (a *agent) listen() (web, error) {
	if a.Listen == "" {
		return web{}, nil
	}
	l, err := net.Listen("tcp", a.Listen)
	if err != nil {
		return web{}, fmt.Errorf("listen for metrics and probes: %w", err)
	}
	return web{server: &http.Server{Handler: a.handler(), ReadHeaderTimeout: 5 * time.Second}, listener: l, log: a.Log}, nil
}

// handler serves figures, liveness and readiness.
func (a *agent) handler() http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(a.metrics, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", probe(a.manager.Alive))
	mux.HandleFunc("GET /readyz", probe(a.ready))
	return mux
}

// probe answers 200, or 503 with what is wrong.
func probe(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

// ready reports what keeps pods from the node's GPUs.
func (a *agent) ready() error {
	a.mu.Lock()
	blocked := a.blocked
	a.mu.Unlock()
	if blocked != nil {
		return blocked
	}
	if err := a.manager.Ready(); err != nil {
		return err
	}
	if a.MPS != nil {
		return a.MPS.Ready()
	}
	return nil
}

// run answers until ctx ends.
func (w web) run(ctx context.Context) {
	if w.server == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.server.Serve(w.listener); !errors.Is(err, http.ErrServerClosed) {
			w.log.Error("metrics and probes are no longer served", "error", err)
		}
	}()
	<-ctx.Done()
	_ = w.server.Close()
	<-done
}
