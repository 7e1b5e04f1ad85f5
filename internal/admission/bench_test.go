//go:build unix

package admission

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/review"
)

// BenchmarkReviews is reviews over HTTP/2 and TLS, on one connection as from one
// API server, of an ordinary pod with a sidecar, 3 KB long. Client and server run
// on the same cores: cpu-ms/op is what both spend. Paced reviews are due at even
// intervals, however long the answers take. Their time counts from when they were
// due; late-p99-ms is how much of it had passed before they were sent.
func BenchmarkReviews(b *testing.B) {
	b.Run("as fast as it goes", func(b *testing.B) {
		measure(b, func(ask func(i int, due time.Time)) {
			var next atomic.Int64
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					ask(int(next.Add(1)-1), time.Now())
				}
			})
		})
	})
	b.Run("1000 a second", func(b *testing.B) {
		measure(b, func(ask func(i int, due time.Time)) { pace(b.N, time.Millisecond, ask) })
	})
}

// inFlight is how many requests that write an API server handles at once by default.
const inFlight = 200

// pace asks n times at even intervals. It keeps time on a thread of its own with
// the kernel's clock, as timers of Go may be a millisecond late on idle cores.
func pace(n int, interval time.Duration, ask func(i int, due time.Time)) {
	due := make(chan int, n)
	begin := time.Now()
	at := func(i int) time.Time { return begin.Add(time.Duration(i) * interval) }
	var workers sync.WaitGroup
	for range inFlight {
		workers.Go(func() {
			for i := range due {
				ask(i, at(i))
			}
		})
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for i := range n {
		for left := time.Until(at(i)); left > 0; left = time.Until(at(i)) {
			pause := syscall.NsecToTimespec(int64(left))
			_ = syscall.Nanosleep(&pause, nil) // woken early, it sleeps again
		}
		due <- i
	}
	close(due)
	workers.Wait()
}

// measure reports what b.N reviews cost and how long they took.
func measure(b *testing.B, drive func(ask func(i int, due time.Time))) {
	address, caller := server(b)
	c := newAsker(b, caller.Transport, address+validatePath)
	for range 100 {
		c.ask(b)
	}
	took, late := make([]time.Duration, b.N), make([]time.Duration, b.N)
	before, spent := heap(), processor(b)
	b.ResetTimer()
	drive(func(i int, due time.Time) {
		late[i] = time.Since(due)
		c.ask(b)
		took[i] = time.Since(due)
	})
	b.StopTimer()
	spent = processor(b) - spent
	grown := int64(heap()) - int64(before)
	slices.Sort(took)
	slices.Sort(late)
	n := float64(b.N)
	b.ReportMetric(n/b.Elapsed().Seconds(), "reviews/s")
	b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
	b.ReportMetric(float64(late[len(late)*99/100])/1e6, "late-p99-ms")
	b.ReportMetric(spent.Seconds()*1e3/n, "cpu-ms/op")
	b.ReportMetric(float64(grown)/1024, "heap-growth-KiB")
}

// An asker posts one review again and again, at little cost of its own, and looks
// at every answer.
type asker struct {
	transport http.RoundTripper
	url       *url.URL
	head      http.Header
	body      []byte
	buffers   sync.Pool
}

func newAsker(b *testing.B, transport http.RoundTripper, address string) *asker {
	b.Helper()
	u, err := url.Parse(address)
	if err != nil {
		b.Fatal(err)
	}
	return &asker{
		transport: transport, url: u, head: http.Header{"Content-Type": {"application/json"}}, body: reviewBody(b),
		buffers: sync.Pool{New: func() any { return new(bytes.Buffer) }},
	}
}

func (a *asker) ask(b *testing.B) {
	r, err := a.transport.RoundTrip(&http.Request{
		Method: http.MethodPost, URL: a.url, Host: a.url.Host, Header: a.head, ProtoMajor: 2,
		Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)),
	})
	if err != nil {
		b.Error(err)
		return
	}
	defer r.Body.Close()
	answer, _ := a.buffers.Get().(*bytes.Buffer)
	answer.Reset()
	_, err = answer.ReadFrom(r.Body)
	if text := answer.Bytes(); err != nil || !bytes.Contains(text, []byte(`"uid":"1"`)) || !bytes.Contains(text, []byte(`"allowed":true`)) {
		b.Errorf("answer %.300s, %v", text, err)
	}
	a.buffers.Put(answer)
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
	g := &review.Guard{Cluster: silent{}, Exemptions: guard.DefaultExemptions()}
	body := reviewBody(b)
	for name, h := range map[string]http.Handler{"validate": Validating(g), "mutate": Mutating(g)} {
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
