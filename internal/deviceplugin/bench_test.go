package deviceplugin

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kerfdev/kerf/internal/deviceplugin/fakekubelet"
)

// over runs f against a kubelet's view of some resource, over real sockets.
func over(b *testing.B, r Resource, links Links, f func(ctx context.Context, k *fakekubelet.Kubelet)) {
	b.Helper()
	dir, err := os.MkdirTemp("", "kerf")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	k, err := fakekubelet.Start(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer k.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	m := New(Config{Dir: dir, KubeletSocket: filepath.Join(dir, "kubelet.sock"), Log: slog.New(slog.DiscardHandler)})
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	defer func() { cancel(); <-done }()
	p := plan(r)
	p.Links = links
	if err := m.Apply(ctx, p); err != nil {
		b.Fatal(err)
	}
	if err := k.Await(ctx, func(k *fakekubelet.Kubelet) bool { return len(k.Devices(r.Name)) == len(r.Devices) }); err != nil {
		b.Fatal(err)
	}
	f(ctx, k)
}

// timed reports the 99th percentile beside the mean.
func timed(b *testing.B, f func()) {
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		f()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkAllocate asks for one of 8 x 48 slices.
func BenchmarkAllocate(b *testing.B) {
	r := shared(8, 48)
	over(b, r, nil, func(ctx context.Context, k *fakekubelet.Kubelet) {
		i := 0
		timed(b, func() {
			if _, err := k.Allocate(ctx, r.Name, []string{r.Devices[i%len(r.Devices)].ID}); err != nil {
				b.Fatal(err)
			}
			i++
		})
	})
}

// BenchmarkPrefer asks which devices are best: of all slices, of eight GPUs in
// every size, and of sixteen GPUs.
func BenchmarkPrefer(b *testing.B) {
	links, _ := volta().names()
	boards := Links{}
	for pair, score := range links {
		boards[[2]string{"GPU-" + pair[0], "GPU-" + pair[1]}] = score
	}
	for _, c := range []struct {
		name string
		r    Resource
		size int
	}{
		{"slices-8x48/4", shared(8, 48), 4},
		{"gpus-8/2", whole(8), 2},
		{"gpus-8/3", whole(8), 3},
		{"gpus-8/4", whole(8), 4},
		{"gpus-12/2", whole(12), 2},
		{"gpus-12/4", whole(12), 4},
		{"gpus-16/2", whole(16), 2},
		{"gpus-16/8", whole(16), 8},
	} {
		b.Run(fmt.Sprint(c.name), func(b *testing.B) {
			over(b, c.r, boards, func(ctx context.Context, k *fakekubelet.Kubelet) {
				available := all(c.r)
				timed(b, func() {
					if got, err := k.Prefer(ctx, c.r.Name, available, nil, c.size); err != nil || len(got) != c.size {
						b.Fatal(got, err)
					}
				})
			})
		})
	}
}

// BenchmarkChoice is the choice alone, without a socket.
func BenchmarkChoice(b *testing.B) {
	links, _ := volta().names()
	boards := Links{}
	for pair, score := range links {
		boards[[2]string{"GPU-" + pair[0], "GPU-" + pair[1]}] = score
	}
	for name, r := range map[string]Resource{"slices-8x48": shared(8, 48), "gpus-8": whole(8), "gpus-12": whole(12), "gpus-16": whole(16)} {
		b.Run(name, func(b *testing.B) {
			s, available := newState(r, Options{}, boards, nil, nil), all(r)
			for b.Loop() {
				if got, err := s.prefer(available, nil, 4); err != nil || len(got) != 4 {
					b.Fatal(got, err)
				}
			}
		})
	}
}
