package e2e

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/lab/world"
)

// The controller is killed once after each kind of write that it makes, before
// it learns of it, and started again each time: while nodes are bought, while
// one is drained and replaced, and while all are given back. Nothing is
// launched twice, nothing is left behind.
func TestAControllerKilledAfterAnyWriteGoesOnWhereItWas(t *testing.T) {
	s := set(t)
	deaths := s.mortal()
	s.apply("faults.yaml")
	s.awaitPods(4, corev1.PodRunning)
	s.awaitFleet(4)
	s.launches(4)

	claims, err := s.Claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Delete(t.Context(), &claims[0]); err != nil {
		t.Fatal(err)
	}
	s.await("the nodeclaim to be gone", func() error { return s.absent(&karpenter.NodeClaim{}, claims[0].Name) })
	s.awaitPods(4, corev1.PodRunning)
	s.awaitFleet(4)
	s.launches(5)

	s.scale("work", 0)
	s.deleteClaims()
	s.awaitFleet(0)

	seen := deaths()
	t.Logf("killed after: %s", strings.Join(seen, "; "))
	for _, must := range []string{
		"create nodeclaims", "patch nodeclaims", "patch nodeclaims/status", "launch instance", "patch nodes", "create pods/eviction",
		"terminate instance", "delete nodes", "create events",
	} {
		if !slices.Contains(seen, must) {
			t.Errorf("the controller never wrote %q, so it was not killed there", must)
		}
	}
}

// mortal keeps a controller running that dies the first time that it makes each
// kind of write. It returns what they have died of.
func (s *scene) mortal() (deaths func() []string) {
	var mu sync.Mutex
	died := map[world.Write]bool{}
	fatal := func(w world.Write) bool {
		mu.Lock()
		defer mu.Unlock()
		first := !died[w]
		died[w] = true
		if first {
			s.Timeline.Note("*** killed after %s", w)
		}
		return first
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := s.Control(s.ctx, fatal)
			if err != nil {
				if s.ctx.Err() == nil {
					s.Error(err)
				}
				return
			}
			select {
			case <-c.Done():
			case <-stop:
				c.Kill()
				return
			}
		}
	})
	s.Cleanup(func() { close(stop); wg.Wait() })
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		var out []string
		for _, w := range slices.Sorted(maps.Keys(died)) {
			out = append(out, string(w))
		}
		return out
	}
}
