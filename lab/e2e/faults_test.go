package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/lab/world"
)

// What is out of stock is planned around at once: by type, then by capacity
// type, then by pool.
func TestWhatIsOutOfStockIsPlannedAround(t *testing.T) {
	s := set(t, func(c *world.Config) { c.StockMemory = time.Minute })
	s.control()
	gone := []cloud.Offering{{Type: "g4dn.xlarge", CapacityType: model.Spot}, {CapacityType: model.Spot}, {Type: "g4dn.xlarge"}, {Type: "g4dn.2xlarge"}}
	for n, step := range []struct {
		name string
		gone int // so many of them by now
	}{{"a type", 1}, {"a capacity type", 2}, {"everything that a pool has", 4}} {
		before := s.Cloud.Instances()
		for _, o := range gone[:step.gone] {
			s.Cloud.Faults().OutOfStock(o, 0)
		}
		s.Timeline.Note("--- out of stock: %s", step.name)
		s.apply(strings.ReplaceAll(read(t, "faults.yaml"), "work", fmt.Sprintf("work-%d", n)))
		s.awaitPods(4*(n+1), corev1.PodRunning)
		s.await("instances with an owner only", s.settled)
		for _, i := range s.Cloud.Instances()[len(before):] {
			for _, o := range gone[:step.gone] {
				if covers(o, i) {
					t.Errorf("%s: %s %s was launched though it is out of stock", step.name, i.CapacityType, i.Type)
				}
			}
		}
	}
	s.said("NodeClaim", "InsufficientCapacityError", "out of stock: g4dn.xlarge spot")
	s.said("NodeClaim", "InsufficientCapacityError", "out of stock: g4dn.xlarge on-demand")
}

func covers(o cloud.Offering, i cloud.Instance) bool {
	return (o.Type == "" || o.Type == i.Type) && (o.CapacityType == "" || o.CapacityType == i.CapacityType)
}

// An instance that never becomes a node is given up after a quarter of an hour,
// and its pod gets another one.
func TestALaunchThatNeverRegistersIsReplaced(t *testing.T) {
	s := set(t)
	s.Cloud.Faults().Doom(cloud.Offering{}, 1, cloud.Fate{NeverRegisters: true})
	s.control()
	s.apply("faults.yaml")
	s.await("3 pods running and 1 pending", s.phases(3, 1))
	s.later(6*time.Minute, func() { s.said("NodeClaim", "NotRegistered", "no node has registered") })
	lost := s.unregistered()[0]
	s.await("the nodeclaim to be a quarter of an hour old", func() error { return s.age(lost, 16*time.Minute) })
	s.await("the nodeclaim to be given up", func() error { return s.absent(&karpenter.NodeClaim{}, lost) })
	s.awaitPods(4, corev1.PodRunning)
	s.awaitFleet(4)
	s.launches(5)
}

// A node whose GPUs do not come up is replaced after the deadline, by another
// type, and the reason is told. Its pool is bought from as before: its other
// nodes show that the machine image brings a device plugin.
func TestANodeWhoseGPUsDoNotComeUpIsReplaced(t *testing.T) {
	s := set(t)
	s.Cloud.Faults().Doom(cloud.Offering{}, 1, cloud.Fate{NoGPUs: true})
	s.control()
	s.apply("faults.yaml")
	s.await("3 pods running and 1 pending", s.phases(3, 1))
	s.later(time.Minute, func() {
		s.said("NodeClaim", "GPUsNotRegistered", "no nvidia.com/gpu after 1m0s", "of the same node class has its GPUs", "the node is replaced")
	})
	s.awaitPods(4, corev1.PodRunning)
	s.awaitFleet(4)
	s.launches(5)
	kinds := map[string]int{}
	for _, i := range s.Cloud.Instances() {
		kinds[i.Pool+" "+i.Type]++
	}
	if diff := cmp.Diff(map[string]int{"small g4dn.xlarge": 3, "small g4dn.2xlarge": 1}, kinds); diff != "" {
		t.Errorf("launched (-want +got):\n%s", diff)
	}
}

// A node that comes up with fewer GPUs than its type has is flagged, and the
// pods that it has no room for get another one.
func TestANodeWithFewerGPUsIsFlaggedAndMadeUpFor(t *testing.T) {
	s := set(t)
	s.Cloud.Faults().Doom(cloud.Offering{}, 1, cloud.Fate{MissingGPUs: 1})
	s.control()
	s.apply(strings.NewReplacer("[g4dn.xlarge, g4dn.2xlarge]", "[g4dn.12xlarge]", "nvidia.com/gpu: 1", "nvidia.com/gpu: 4", "replicas: 4", "replicas: 2").Replace(read(t, "faults.yaml")))
	s.said("NodeClaim", "FewerGPUs", ", predicted ")
	s.awaitPods(2, corev1.PodRunning)
}

// A spot node that is taken back is drained, and its pods get another one.
func TestASpotNodeThatIsTakenBackIsReplaced(t *testing.T) {
	s := set(t)
	s.control()
	s.apply("faults.yaml")
	s.awaitPods(4, corev1.PodRunning)
	s.awaitFleet(4)
	taken := s.Cloud.Instances()[0]
	if err := s.Cloud.Faults().Interrupt(taken.ID); err != nil {
		t.Fatal(err)
	}
	s.await("the instance to be gone", func() error {
		for _, i := range s.Cloud.Instances() {
			if i.ID == taken.ID {
				return fmt.Errorf("instance %s is %s", i.ID, i.State)
			}
		}
		return nil
	})
	s.awaitPods(4, corev1.PodRunning)
	s.awaitFleet(4)
	s.launches(5)
}

// With an API server that is slow, and one that goes away for a while, all that
// was asked for is done, once.
func TestASlowOrAbsentAPIServerDelaysButLosesNothing(t *testing.T) {
	s := set(t)
	t.Cleanup(func() { running.Slow(0); running.Heal() })
	s.control()
	running.Slow(200 * time.Millisecond)
	s.apply("faults.yaml")
	s.await("2 nodeclaims", func() error {
		claims, err := s.Claims(s.ctx)
		if err == nil && len(claims) < 2 {
			err = fmt.Errorf("%d nodeclaims", len(claims))
		}
		return err
	})
	running.Cut()
	s.Timeline.Note("--- the API server is cut off")
	away := time.NewTimer(3 * time.Second)
	<-away.C
	running.Heal()
	s.Timeline.Note("--- the API server is back")
	s.awaitPods(4, corev1.PodRunning)
	running.Slow(0)
	s.awaitFleet(4)
	s.launches(4)
}

// phases wants so many pods running and pending.
func (s *scene) phases(run, pending int) func() error {
	return func() error {
		r, _, err := s.count(corev1.PodRunning)
		if err != nil {
			return err
		}
		p, _, err := s.count(corev1.PodPending)
		if err == nil && (r != run || p != pending) {
			err = fmt.Errorf("%d running, %d pending", r, p)
		}
		return err
	}
}

// launches fails the test when another number of instances was ever launched.
func (s *scene) launches(want int) {
	s.Helper()
	if got := s.Launches(); got != want {
		s.Errorf("%d instances were launched in all; want %d", got, want)
	}
}

// later moves time on for the controller until something has happened.
func (s *scene) later(d time.Duration, until func()) {
	s.Helper()
	for _, step := range []time.Duration{d, -d} {
		if err := s.Later(s.ctx, step); err != nil {
			s.Fatal(err)
		}
		if step > 0 {
			until()
		}
	}
}

// age makes what is said of one NodeClaim older.
func (s *scene) age(name string, d time.Duration) error {
	claim := &karpenter.NodeClaim{}
	if err := s.Client.Get(s.ctx, client.ObjectKey{Name: name}, claim); err != nil {
		return err
	}
	for i := range claim.Status.Conditions {
		at := &claim.Status.Conditions[i].LastTransitionTime
		at.Time = at.Add(-d)
	}
	return s.Client.Status().Update(s.ctx, claim)
}

// unregistered lists the NodeClaims whose instance runs without a node.
func (s *scene) unregistered() (names []string) {
	s.Helper()
	claims, err := s.Claims(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	for i := range claims {
		set := claims[i].StatusConditions()
		if set.Get(karpenter.ConditionTypeLaunched).IsTrue() && !set.Get(karpenter.ConditionTypeRegistered).IsTrue() {
			names = append(names, claims[i].Name)
		}
	}
	return names
}

// deleteClaims deletes every NodeClaim as a person would.
func (s *scene) deleteClaims() {
	s.Helper()
	if err := s.Client.DeleteAllOf(s.ctx, &karpenter.NodeClaim{}); err != nil {
		s.Fatal(err)
	}
}
