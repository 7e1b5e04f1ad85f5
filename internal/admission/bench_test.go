//go:build unix

package admission

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kerfdev/kerf/internal/guard"
)

// BenchmarkReviews is reviews over HTTP/2 and TLS of an ordinary pod with a
// sidecar, 3 KB long. Client and server run on the same cores: cpu-ms/op is what
// both spend. Paced reviews come at a fixed rate, however long the answers take.
func BenchmarkReviews(b *testing.B) {
	b.Run("as fast as it goes", func(b *testing.B) {
		var next atomic.Int64
		measure(b, func(done func(i int, took time.Duration), ask func()) {
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					start := time.Now()
					ask()
					done(int(next.Add(1)-1), time.Since(start))
				}
			})
		})
	})
	b.Run("1000 a second", func(b *testing.B) {
		measure(b, func(done func(i int, took time.Duration), ask func()) {
			var wait sync.WaitGroup
			var next atomic.Int64
			begin := time.Now()
			for range inFlight {
				wait.Go(func() {
					for i := int(next.Add(1) - 1); i < b.N; i = int(next.Add(1) - 1) {
						due := begin.Add(time.Duration(i) * time.Millisecond)
						time.Sleep(time.Until(due))
						ask()
						done(i, time.Since(due))
					}
				})
			}
			wait.Wait()
		})
	})
}

// inFlight is how many requests that write an API server handles at once by default.
const inFlight = 200

// measure reports what b.N reviews cost and how long they took.
func measure(b *testing.B, drive func(done func(i int, took time.Duration), ask func())) {
	url, caller := server(b)
	body := reviewBody(b)
	for range 100 {
		send(b, caller, url+validatePath, body)
	}
	took := make([]time.Duration, b.N)
	before, spent := heap(), processor(b)
	b.ResetTimer()
	drive(func(i int, d time.Duration) { took[i] = d }, func() { send(b, caller, url+validatePath, body) })
	b.StopTimer()
	spent = processor(b) - spent
	grown := int64(heap()) - int64(before)
	slices.Sort(took)
	n := float64(b.N)
	b.ReportMetric(n/b.Elapsed().Seconds(), "reviews/s")
	b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
	b.ReportMetric(spent.Seconds()*1e3/n, "cpu-ms/op")
	b.ReportMetric(float64(grown)/1024, "heap-growth-KiB")
}

// processor is the time that this process has spent on processors.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// BenchmarkJudge is the same review without the network: decoding, rules, answer.
func BenchmarkJudge(b *testing.B) {
	g := &Guard{Cluster: silent{}, Exemptions: guard.DefaultExemptions()}
	body := reviewBody(b)
	for name, h := range map[string]http.Handler{"validate": hook(g.Validate), "mutate": hook(g.Mutate)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
}
