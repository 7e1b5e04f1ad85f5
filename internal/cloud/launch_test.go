package cloud

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/kerfdev/kerf/internal/model"
)

// cheapestOf is what the book says of a type.
func cheapestOf(t *testing.T, kind, capacityType string) model.Offering {
	t.Helper()
	k, ok := book().Type(kind)
	if !ok {
		t.Fatalf("the book has no %s", kind)
	}
	for _, o := range k.Offerings {
		if capacityType == "" || o.CapacityType == capacityType {
			return o
		}
	}
	t.Fatalf("%s is not sold as %s", kind, capacityType)
	return model.Offering{}
}

func TestTheCheapestAllowedOfferingIsLaunched(t *testing.T) {
	for name, c := range map[string]struct {
		claim *karpenter.NodeClaim
		want  string
		kind  string
	}{
		"of several types the cheapest, and spot before on-demand by price alone": {
			claim: claim("a", kinds("g5.48xlarge", "g4dn.xlarge", "g5.xlarge")), want: "g4dn.xlarge", kind: model.Spot,
		},
		"on-demand when only that is allowed": {
			claim: claim("a", kinds("g4dn.xlarge", "g4dn.2xlarge"), asks(model.LabelCapacityType, model.OnDemand)), want: "g4dn.xlarge", kind: model.OnDemand,
		},
		"by a family that the pool names": {
			claim: claim("a", asks("karpenter.k8s.aws/instance-family", "g5"), asks(model.LabelCapacityType, model.OnDemand)), want: "g5.xlarge", kind: model.OnDemand,
		},
		"large enough for the requests": {
			claim: requests(claim("a", asks("karpenter.k8s.aws/instance-family", "g5"), asks(model.LabelCapacityType, model.OnDemand)), 4), want: "g5.12xlarge", kind: model.OnDemand,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, ec2("default"))
			got := w.launch(c.claim)
			o := cheapestOf(t, c.want, c.kind)
			want := Instance{
				ID: got.ID, ProviderID: "sim:///" + o.Zone + "/" + got.ID, Number: 1, Claim: "a", Node: "a", Pool: "gpu",
				Type: c.want, Zone: o.Zone, CapacityType: c.kind, Price: o.Price, Launched: start, State: Running,
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func requests(c *karpenter.NodeClaim, gpus int64) *karpenter.NodeClaim {
	c.Spec.Resources.Requests = corev1.ResourceList{model.NvidiaGPU: amount(gpus)}
	return c
}

func TestALaunchedClaimSaysWhatItBecame(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	c := claim("a", kinds("g5.xlarge"), asks(model.LabelCapacityType, model.OnDemand))
	got, err := w.sim.Create(w.ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		model.LabelInstanceType: "g5.xlarge", model.LabelCapacityType: model.OnDemand, model.LabelRegion: "us-east-1",
		"karpenter.k8s.aws/instance-gpu-name": "a10g", model.LabelArch: "amd64", karpenter.NodePoolLabelKey: "gpu",
	} {
		if got.Labels[key] != want {
			t.Errorf("label %s is %q, want %q", key, got.Labels[key], want)
		}
	}
	if d := cmp.Diff(map[string]int64{model.NvidiaGPU: 1}, gpus(got.Status.Capacity)); d != "" {
		t.Error(d)
	}
	if cpu := got.Status.Allocatable.Cpu().MilliValue(); cpu >= 4000 || cpu < 3800 {
		t.Errorf("of 4 cores %dm are allocatable; the kubelet keeps some", cpu)
	}
}

func TestAClaimThatIsLaunchedTwiceGetsOneInstance(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	c := claim("a", kinds("g5.xlarge"))
	first, err := w.sim.Create(w.ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	second, err := w.sim.Create(w.ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if first.Status.ProviderID != second.Status.ProviderID || len(w.sim.Instances()) != 1 {
		t.Errorf("%d instances: %s and %s", len(w.sim.Instances()), first.Status.ProviderID, second.Status.ProviderID)
	}
}

func TestOutOfStockFallsBackAndIsShownForAWhile(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	w.sim.Faults().OutOfStock(Offering{Type: "g4dn.xlarge", CapacityType: model.Spot}, 0)
	got := w.launch(claim("a", kinds("g4dn.xlarge")))
	if got.CapacityType != model.OnDemand {
		t.Errorf("launched %s %s; spot is out of stock", got.Type, got.CapacityType)
	}
	if n := available(t, w, "g4dn.xlarge", model.Spot); n != 0 {
		t.Errorf("%d spot offerings are shown as available right after they were found out of stock", n)
	}
	w.sim.Faults().Restock(Offering{Type: "g4dn.xlarge", CapacityType: model.Spot})
	w.clock.Step(defaults.Stock)
	if n := available(t, w, "g4dn.xlarge", model.Spot); n == 0 {
		t.Error("after three minutes the spot offerings should be tried again")
	}
	if got := w.launch(claim("b", kinds("g4dn.xlarge"))); got.CapacityType != model.Spot {
		t.Errorf("launched %s; spot is back", got.CapacityType)
	}
}

func TestWithoutAnySpotItIsOnDemand(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	w.sim.Faults().OutOfStock(Offering{CapacityType: model.Spot}, time.Hour) // as a used-up quota answers (aws#5789)
	for _, name := range []string{"a", "b"} {
		if got := w.launch(claim(name, kinds("g4dn.xlarge", "g5.xlarge"))); got.CapacityType != model.OnDemand {
			t.Errorf("launched %s %s", got.Type, got.CapacityType)
		}
	}
	w.clock.Step(time.Hour)
	if got := w.launch(claim("c", kinds("g4dn.xlarge", "g5.xlarge"))); got.CapacityType != model.Spot {
		t.Errorf("an hour later launched %s %s", got.Type, got.CapacityType)
	}
}

// available counts a type's offerings that are shown as such.
func available(t *testing.T, w *world, kind, capacityType string) int {
	t.Helper()
	types, err := w.sim.GetInstanceTypes(w.ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, k := range types {
		for _, o := range k.Offerings {
			if k.Name == kind && o.CapacityType() == capacityType && o.Available {
				n++
			}
		}
	}
	return n
}

func TestLaunchErrors(t *testing.T) {
	unready := ec2("default")
	unready.Status.Conditions = []status.Condition{{Type: status.ConditionReady, Status: metav1.ConditionFalse, Reason: "SubnetsNotFound", Message: "no subnet matches"}}
	for name, c := range map[string]struct {
		class  *EC2NodeClass
		claim  *karpenter.NodeClaim
		broken func(*Faults)
		is     func(error) bool
		says   string
	}{
		"nothing in stock is insufficient capacity": {
			class: ec2("default"), claim: claim("a", kinds("g5.xlarge")),
			broken: func(f *Faults) { f.OutOfStock(Offering{Type: "g5.xlarge"}, 0) },
			is:     cloudprovider.IsInsufficientCapacityError, says: "out of stock: g5.xlarge spot us-east-1",
		},
		"a type that does not exist is insufficient capacity": {
			class: ec2("default"), claim: claim("a", kinds("g99.xlarge")), is: cloudprovider.IsInsufficientCapacityError, says: "unavailable",
		},
		"requests that no listed type has room for are insufficient capacity": {
			class: ec2("default"), claim: requests(claim("a", kinds("g5.xlarge")), 2), is: cloudprovider.IsInsufficientCapacityError, says: "unavailable",
		},
		"a node class that is missing is insufficient capacity, as with AWS": {
			class: ec2("other"), claim: claim("a", kinds("g5.xlarge")), is: cloudprovider.IsInsufficientCapacityError, says: "not found",
		},
		"a node class that is not ready": {
			class: unready, claim: claim("a", kinds("g5.xlarge")), is: cloudprovider.IsNodeClassNotReadyError, says: "no subnet matches",
		},
		"an error of the API": {
			class: ec2("default"), claim: claim("a", kinds("g5.xlarge")),
			broken: func(f *Faults) { f.FailLaunches(1, errors.New("UnauthorizedOperation")) },
			is:     func(err error) bool { return !cloudprovider.IsInsufficientCapacityError(err) }, says: "UnauthorizedOperation",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, c.class)
			if c.broken != nil {
				c.broken(w.sim.Faults())
			}
			_, err := w.sim.Create(w.ctx, c.claim)
			if err == nil || !c.is(err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one with %q", err, c.says)
			}
			if n := len(w.sim.Instances()); n != 0 {
				t.Errorf("%d instances are billed", n)
			}
		})
	}
}

func TestTheRateLimitHoldsForASecond(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	w.sim.Faults().RateLimit(2)
	launched := func(name string) bool {
		_, err := w.sim.Create(w.ctx, claim(name, kinds("g5.xlarge")))
		return err == nil
	}
	got := []bool{launched("a"), launched("b"), launched("c")}
	w.clock.Step(time.Second)
	got = append(got, launched("c"))
	if d := cmp.Diff([]bool{true, true, false, true}, got); d != "" {
		t.Error(d)
	}
}

func TestRandomFaultsFollowFromTheSeed(t *testing.T) {
	run := func(seed uint64) (out []Fate) {
		w := newWorldWith(t, Config{Seed: seed}, ec2("default"))
		w.sim.Faults().Random(Rates{LaunchError: 0.2, NeverRegisters: 0.3, NoGPUs: 0.3, MissingGPU: 0.3})
		for _, name := range strings.Split("abcdefghijklmnopqrst", "") {
			created, err := w.sim.Create(w.ctx, claim(name, kinds("g5.xlarge")))
			if err != nil {
				out = append(out, Fate{KeepsTaints: true}) // stands for a launch that failed
				continue
			}
			id, _ := idIn(created.Status.ProviderID)
			m, _ := w.sim.look(id)
			out = append(out, m.fate)
		}
		return out
	}
	if d := cmp.Diff(run(7), run(7)); d != "" {
		t.Errorf("the same seed gives other faults: %s", d)
	}
	if cmp.Equal(run(7), run(8)) {
		t.Error("another seed gives the same faults")
	}
	if cmp.Equal(run(7), make([]Fate, 20)) {
		t.Error("nothing ever goes wrong")
	}
}

func TestAnInstanceIsListedUntilItIsGone(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	i := w.launch(claim("a", kinds("g5.xlarge")))
	if _, err := w.sim.Get(w.ctx, i.ProviderID); err != nil {
		t.Error(err)
	}
	if err := w.sim.Delete(w.ctx, w.claim("a")); err != nil {
		t.Errorf("the first Delete starts it: %v", err)
	}
	listed, err := w.sim.List(w.ctx)
	if err != nil || len(listed) != 1 || listed[0].DeletionTimestamp == nil {
		t.Errorf("while it shuts down it is listed as being deleted: %v, %v", listed, err)
	}
	w.clock.Step(defaults.Terminate)
	if err := w.sim.Delete(w.ctx, w.claim("a")); !cloudprovider.IsNodeClaimNotFoundError(err) {
		t.Errorf("once it is gone Delete says so, not %v", err)
	}
	if _, err := w.sim.Get(w.ctx, i.ProviderID); !cloudprovider.IsNodeClaimNotFoundError(err) {
		t.Errorf("once it is gone Get says so, not %v", err)
	}
	if _, err := w.sim.Get(w.ctx, "aws:///us-east-1a/i-0123"); !cloudprovider.IsNodeClaimNotFoundError(err) {
		t.Errorf("another cloud's instance is not found here, not %v", err)
	}
}

func TestANewProcessFindsItsInstances(t *testing.T) {
	w := newWorld(t, nil, ec2("default"))
	booting, running := w.launch(claim("a", kinds("g5.xlarge"))), w.launch(claim("b", kinds("g4dn.xlarge")))
	w.up(running)
	w.sim = w.cloud(Config{})
	listed, err := w.sim.List(w.ctx)
	if err != nil || len(listed) != 2 {
		t.Fatalf("listed %d instances: %v", len(listed), err)
	}
	for _, was := range []Instance{booting, running} {
		m, ok := w.sim.look(was.ID)
		if !ok {
			t.Fatalf("instance %s is lost", was.ID)
		}
		m.Number = was.Number
		if d := cmp.Diff(was, m.Instance); d != "" {
			t.Error(d)
		}
	}
	if again, err := w.sim.Create(w.ctx, w.claim("a")); err != nil || again.Status.ProviderID != booting.ProviderID {
		t.Errorf("launching again gives %v, %v", again, err)
	}
	if n := w.up(booting); n == nil || !ready(n) {
		t.Error("the machine that was booting does not come up in the new process")
	}
}

func TestNodeClasses(t *testing.T) {
	t.Run("a class whose conditions nobody set is made ready", func(t *testing.T) {
		w := newWorld(t, nil, ec2("default"))
		if err := w.sim.readyClasses(w.ctx); err != nil {
			t.Fatal(err)
		}
		got := ec2("default")
		if err := w.client.Get(w.ctx, clientKey("default"), got); err != nil || !got.StatusConditions().IsTrue(status.ConditionReady) {
			t.Errorf("conditions %v, %v", got.Status.Conditions, err)
		}
	})
	t.Run("one that says it is not ready stays so", func(t *testing.T) {
		c := ec2("default")
		c.Status.Conditions = []status.Condition{{Type: status.ConditionReady, Status: metav1.ConditionFalse, Reason: "Broken", Message: "broken"}}
		w := newWorld(t, nil, c)
		if err := w.sim.readyClasses(w.ctx); err != nil {
			t.Fatal(err)
		}
		got := ec2("default")
		if err := w.client.Get(w.ctx, clientKey("default"), got); err != nil || !got.StatusConditions().Get(status.ConditionReady).IsFalse() {
			t.Errorf("conditions %v, %v", got.Status.Conditions, err)
		}
	})
	t.Run("its kubelet settings change the types", func(t *testing.T) {
		c := ec2("default")
		c.Spec = map[string]any{"kubelet": map[string]any{"maxPods": int64(20)}}
		w := newWorld(t, nil, c)
		pool := &karpenter.NodePool{}
		pool.Spec.Template.Spec.NodeClassRef = claim("a").Spec.NodeClassRef
		types, err := w.sim.GetInstanceTypes(w.ctx, pool)
		if err != nil {
			t.Fatal(err)
		}
		if n := types[0].Capacity.Pods().Value(); n != 20 {
			t.Errorf("%s takes %d pods, want 20", types[0].Name, n)
		}
	})
	t.Run("a changed class is drift", func(t *testing.T) {
		w := newWorld(t, nil, ec2("default"))
		created, err := w.sim.Create(w.ctx, claim("a", kinds("g5.xlarge")))
		if err != nil {
			t.Fatal(err)
		}
		created.Spec.NodeClassRef = claim("a").Spec.NodeClassRef
		if reason, err := w.sim.IsDrifted(w.ctx, created); reason != "" || err != nil {
			t.Errorf("drifted before anything changed: %s, %v", reason, err)
		}
		c := ec2("default")
		if err := w.client.Get(w.ctx, clientKey("default"), c); err != nil {
			t.Fatal(err)
		}
		c.Spec = map[string]any{"userData": "#!/bin/sh"}
		if err := w.client.Update(w.ctx, c); err != nil {
			t.Fatal(err)
		}
		if reason, err := w.sim.IsDrifted(w.ctx, created); reason != "NodeClassDrift" || err != nil {
			t.Errorf("drift is %q, %v", reason, err)
		}
	})
}
