package guard

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kerfdev/kerf/internal/admission"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/live"
)

// A load asks the API server again and again until it is told to stop.
type load struct {
	stop    context.CancelFunc
	workers sync.WaitGroup
	asked   atomic.Int64
}

func newLoad(t *testing.T, ask func(ctx context.Context, n int64)) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{stop: cancel}
	for range 4 {
		l.workers.Go(func() {
			for ctx.Err() == nil {
				ask(context.WithoutCancel(ctx), l.asked.Add(1))
			}
		})
	}
	t.Cleanup(l.end)
	return l
}

func (l *load) end() {
	l.stop()
	l.workers.Wait()
}

// more waits until the API server was asked n times more.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	goal := l.asked.Load() + n
	eventually(t, "more reviews", func() error {
		if l.asked.Load() < goal {
			return errors.New("not yet")
		}
		return nil
	})
}

// A new authority and new certificates come under load, and no review fails:
// not one connection is refused, though the guard fails closed.
func TestCertificatesRotateUnderLoad(t *testing.T) {
	u := newUser(t)
	ns := u.scratch(t)
	u.namespace(t, own, nil)
	ancient(t, u)
	old := u.keys(t)
	s := guarded(t, u, func(c *admission.Config) { c.Settle, c.Every = 5*time.Second, 100*time.Millisecond })
	before := s.findings(t)[[2]string{"env-visible-devices", "error"}]
	var failed atomic.Pointer[error]
	var refused atomic.Int64
	l := newLoad(t, func(ctx context.Context, n int64) {
		if n%2 == 0 {
			if _, err := u.try(ctx, ns, honest("p")); err != nil {
				failed.Store(&err)
			}
			return
		}
		_, err := u.try(ctx, ns, thief("p"))
		if err == nil {
			err = errors.New("a thief was let in")
		}
		if !strings.Contains(err.Error(), "env-visible-devices") {
			failed.Store(&err)
		}
		refused.Add(1)
	})
	l.more(t, 20)
	eventually(t, "the next authority signs", func() error {
		if k := u.keys(t); bytes.Equal(k["ca.crt"], old["ca.crt"]) || !bytes.Equal(k["old-ca.crt"], old["ca.crt"]) {
			return errors.New("not yet")
		}
		return nil
	})
	for range 3 {
		l.more(t, 50)
		u.forget(t, "tls.crt")
	}
	l.more(t, 50)
	l.end()
	if err := failed.Load(); err != nil {
		t.Errorf("a review failed: %v", *err)
	}
	if got := s.findings(t)[[2]string{"env-visible-devices", "error"}] - before; got < float64(refused.Load()) {
		t.Errorf("%d pods were refused, %v by the guard", refused.Load(), got)
	}
	t.Logf("%d reviews under load", l.asked.Load())
}

// ancient leaves the keys of a guard that was last seen 300 days ago: its
// certificate has ended, its authority will in 65 days.
func ancient(t *testing.T, u *user) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	port, url := address(t)
	ended := make(chan error, 1)
	go func() {
		ended <- stand(ctx, config, admission.Config{
			Namespace: own, Host: "127.0.0.1", Port: port, URL: url, Clock: clocktesting.NewFakeClock(time.Now().AddDate(0, 0, -300)),
		})
	}()
	eventually(t, "an old guard leaves its keys", func() error {
		_, err := u.CoreV1().Secrets(own).Get(ctx, "kerf-guard-tls", metav1.GetOptions{})
		return err
	})
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func (u *user) keys(t *testing.T) map[string][]byte {
	t.Helper()
	s, err := u.CoreV1().Secrets(own).Get(t.Context(), "kerf-guard-tls", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Data
}

// forget takes a part away from the guard's Secret, and waits until it is made anew.
func (u *user) forget(t *testing.T, part string) {
	t.Helper()
	eventually(t, "the Secret is changed", func() error {
		s, err := u.CoreV1().Secrets(own).Get(t.Context(), "kerf-guard-tls", metav1.GetOptions{})
		if err == nil {
			delete(s.Data, part)
			_, err = u.CoreV1().Secrets(own).Update(t.Context(), s, metav1.UpdateOptions{})
		}
		return err
	})
	eventually(t, "the part is made anew", func() error {
		if len(u.keys(t)[part]) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
}

// A guard that fails open is killed under load: whatever comes meanwhile is let
// in, and the next scan of the cluster finds it.
func TestKilledWhenItFailsOpen(t *testing.T) {
	u := newUser(t)
	ns := u.scratch(t)
	m := newMortal(t, u, false)
	m.start(t, u)
	var failed atomic.Pointer[error]
	l := newLoad(t, func(ctx context.Context, _ int64) {
		if _, err := u.try(ctx, ns, honest("p")); err != nil {
			failed.Store(&err)
		}
	})
	l.more(t, 20)
	m.kill()
	l.more(t, 50)
	if _, err := u.CoreV1().Pods(ns).Create(t.Context(), thief("in"), metav1.CreateOptions{}); err != nil {
		t.Errorf("a pod while no guard runs: %v", err)
	}
	m.start(t, u)
	l.end()
	if err := failed.Load(); err != nil {
		t.Errorf("an honest pod was refused: %v", *err)
	}
	if _, err := u.CoreV1().Pods(ns).Create(t.Context(), thief("late"), metav1.CreateOptions{}); err == nil {
		t.Error("a thief was let in after the guard came back")
	}
	objects, err := live.Where{Kubeconfig: kubeconfig}.ReadAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	docs := objects.Documents()
	var found []string
	for _, f := range guard.Scan(guard.Read(docs), guard.DefaultExemptions()).Findings {
		if f.Namespace() == ns {
			found = append(found, f.Rule+" "+f.Place.Object)
		}
	}
	if len(found) != 1 || found[0] != "env-visible-devices Pod "+ns+"/in" {
		t.Errorf("the scan finds %q", found)
	}
	if sign := guard.Sign(docs); sign != "ValidatingWebhookConfiguration "+admission.Name {
		t.Errorf("the scan takes the guard to be enforced by %q", sign)
	}
}

// One that fails closed: nothing comes in meanwhile, but where it must.
func TestKilledWhenItFailsClosed(t *testing.T) {
	u := newUser(t)
	ns := u.scratch(t)
	m := newMortal(t, u, true)
	m.start(t, u)
	var failed atomic.Pointer[error]
	l := newLoad(t, func(ctx context.Context, _ int64) {
		_, err := u.try(ctx, ns, honest("p"))
		if err != nil && !strings.Contains(err.Error(), `failed calling webhook "`) {
			failed.Store(&err)
		}
	})
	l.more(t, 20)
	m.kill()
	l.more(t, 50)
	_, err := u.try(t.Context(), ns, honest("p"))
	for _, part := range []string{"guard.kerf.dev", "failed calling webhook", "connection refused"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the refusal does not say %q: %v", part, err)
		}
	}
	for _, exempt := range []string{own, "kube-system"} {
		if _, err := u.try(t.Context(), exempt, honest("p")); err != nil {
			t.Errorf("a pod in %s: %v", exempt, err)
		}
	}
	if _, err := u.AppsV1().Deployments(ns).Create(t.Context(), deployment(honest("p").Spec), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("a deployment, which is only ever warned of: %v", err)
	}
	m.start(t, u)
	l.end()
	if err := failed.Load(); err != nil {
		t.Errorf("an honest pod was refused: %v", *err)
	}
	if _, err := u.try(t.Context(), ns, honest("p")); err != nil {
		t.Errorf("after the guard came back: %v", err)
	}
}
