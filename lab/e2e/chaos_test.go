package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/lab/world"
)

// Faults of every kind at random over 200 pods. When they have ended, every pod
// runs, and every instance belongs to somebody. KERF_CHAOS=10m has them for so
// long, and twice with the same seed; KERF_SEED is another seed.
func TestChaosEndsWithEveryPodRunningAndNothingLeftOver(t *testing.T) {
	long, runs := 20*time.Second, []string{"first"}
	if text := os.Getenv("KERF_CHAOS"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, "second")
	}
	seed := uint64(number(t, "KERF_SEED", 1))
	steps := trouble(seed, long)
	if !slices.Equal(steps, trouble(seed, long)) {
		t.Fatal("the same seed makes other trouble")
	}
	for _, run := range runs {
		t.Run(run, func(t *testing.T) { chaos(t, seed, steps) })
	}
}

// A step is one fault at a time from the beginning. What it befalls is the nth
// of those that are there, counted round.
type step struct {
	at   time.Duration
	what string
	n    int
}

// trouble follows from the seed alone.
func trouble(seed uint64, long time.Duration) []step {
	r := rand.New(rand.NewPCG(seed, 0))
	kinds := []string{
		"out of stock", "out of stock", "launch fails", "rate limit", "never registers", "no GPUs", "fewer GPUs", "interruption", "interruption", "GPUs die",
		"kill", "kill", "die after a write", "die after a write", "slow", "cut", "delete pods", "delete pods", "delete nodeclaim", "scale", "scale",
	}
	var out []step
	for at := time.Second; at < long; at += 300*time.Millisecond + time.Duration(r.IntN(1200))*time.Millisecond {
		out = append(out, step{at, kinds[r.IntN(len(kinds))], r.IntN(1 << 20)})
	}
	return out
}

func chaos(t *testing.T, seed uint64, steps []step) {
	s := set(t, func(c *world.Config) { c.Seed, c.StockMemory = seed, 2*time.Second })
	t.Cleanup(func() { running.Slow(0); running.Heal() })
	d := &disorder{scene: s, faults: s.Cloud.Faults()}
	s.apply("chaos.yaml")
	d.restart(nil)
	begin := time.Now()
	for _, step := range steps {
		wait := time.NewTimer(step.at - time.Since(begin))
		select {
		case <-wait.C:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
		s.Timeline.Note("*** %s (%d)", step.what, step.n)
		if err := d.make(step); err != nil {
			s.Timeline.Note("*** could not: %v", err)
		}
		d.revive()
	}
	s.Timeline.Note("--- the faults end")
	d.end()
	s.awaitFor(2*patience, "200 pods Running and none else", func() error { return errors.Join(d.giveUp(), d.running(200)) })
	s.await("instances with an owner only", func() error { return errors.Join(d.giveUp(), s.settled(), d.running(200)) })
	t.Logf("%d faults, %d instances launched, %d in the end", len(steps), s.Launches(), len(s.Cloud.Instances()))
}

// A disorder makes trouble in a scene.
type disorder struct {
	*scene
	faults     *cloud.Faults
	controller *world.Controller
}

// restart kills the controller, if there is one, and starts another.
func (d *disorder) restart(fatal world.Fatal) {
	if d.controller != nil {
		d.controller.Kill()
	}
	d.start(fatal)
}

// start starts a controller, again and again where the API server is away.
func (d *disorder) start(fatal world.Fatal) {
	ctx, cancel := context.WithTimeout(d.ctx, patience)
	defer cancel()
	err := d.Until(ctx, "the controller to start", func() error {
		c, err := d.Control(ctx, fatal)
		if err == nil {
			d.controller = c
		}
		return err
	})
	if err != nil {
		d.Fatal(err)
	}
}

// revive starts a controller where the last one has died.
func (d *disorder) revive() {
	select {
	case <-d.controller.Done():
		d.Timeline.Note("*** the controller had died and is started again")
		d.start(nil)
	default:
	}
}

// make does what a step says.
func (d *disorder) make(s step) error {
	short := time.Duration(1+s.n%4) * time.Second
	switch s.what {
	case "out of stock":
		d.faults.OutOfStock(patterns[s.n%len(patterns)], short)
	case "launch fails":
		d.faults.FailLaunches(1+s.n%5, errors.New("the cloud's API is out of order"))
	case "rate limit":
		d.faults.RateLimit(s.n % 4 * 2) // 0 ends an earlier one
	case "never registers":
		d.faults.Doom(cloud.Offering{}, 1+s.n%2, cloud.Fate{NeverRegisters: true})
	case "no GPUs":
		d.faults.Doom(cloud.Offering{}, 1+s.n%2, cloud.Fate{NoGPUs: true})
	case "fewer GPUs":
		d.faults.Doom(cloud.Offering{}, 1+s.n%3, cloud.Fate{MissingGPUs: 1})
	case "interruption":
		return d.strike(s.n, func(i cloud.Instance) bool { return i.CapacityType == model.Spot }, d.faults.Interrupt)
	case "GPUs die":
		return d.strike(s.n, func(cloud.Instance) bool { return true }, func(id string) error { return d.faults.BreakGPUs(id, -1) })
	case "kill":
		d.restart(nil)
	case "die after a write":
		d.restart(dieAfter(1 + s.n%40))
	case "slow":
		running.Slow(time.Duration(s.n%150) * time.Millisecond) // until the next one
	case "cut":
		running.Cut()
		time.AfterFunc(short/2, running.Heal)
	case "delete pods":
		return d.deletePods(s.n)
	case "delete nodeclaim":
		return d.deleteClaim(s.n)
	case "scale":
		return d.rebalance(s.n)
	}
	return nil
}

// patterns are what runs out.
var patterns = []cloud.Offering{
	{CapacityType: model.Spot}, {Type: "g4dn.xlarge"}, {Type: "g4dn.xlarge", CapacityType: model.Spot}, {Type: "g4dn.2xlarge"}, {Zone: "us-east-1a"}, {Type: "g5.xlarge"},
}

// dieAfter kills a controller with its nth write.
func dieAfter(n int) world.Fatal {
	left := make(chan struct{}, n)
	for range n - 1 {
		left <- struct{}{}
	}
	return func(world.Write) bool {
		select {
		case <-left:
			return false
		default:
			return true
		}
	}
}

// strike befalls the nth of the running instances that qualify.
func (d *disorder) strike(n int, which func(cloud.Instance) bool, what func(id string) error) error {
	var ids []string
	for _, i := range d.Cloud.Instances() {
		if i.State == cloud.Running && which(i) {
			ids = append(ids, i.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return what(ids[n%len(ids)])
}

// deletePods deletes up to ten pods, which their Deployments make anew.
func (d *disorder) deletePods(n int) error {
	pods, err := d.Pods(d.ctx, "")
	if err != nil || len(pods) == 0 {
		return err
	}
	for i := range 1 + n%10 {
		if err := client.IgnoreNotFound(d.Client.Delete(d.ctx, &pods[(n+i*7)%len(pods)])); err != nil {
			return err
		}
	}
	return nil
}

func (d *disorder) deleteClaim(n int) error {
	claims, err := d.Claims(d.ctx)
	if err != nil || len(claims) == 0 {
		return err
	}
	slices.SortFunc(claims, func(a, b karpenter.NodeClaim) int { return strings.Compare(a.Name, b.Name) })
	return client.IgnoreNotFound(d.Client.Delete(d.ctx, &claims[n%len(claims)]))
}

// rebalance moves pods from one Deployment to the other: 200 stay 200.
func (d *disorder) rebalance(n int) error {
	whole := 20 + n%40
	return errors.Join(d.replicas("whole", whole), d.replicas("slice", 200-whole))
}

// end puts everything right, but what has befallen machines.
func (d *disorder) end() {
	running.Slow(0)
	running.Heal()
	d.faults.Clear()
	d.restart(nil)
	d.await("the API server to take the final scale", func() error { return d.rebalance(20) })
}

// giveUp deletes the NodeClaims whose instances do not become nodes, after
// Karpenter's quarter of an hour at the machines' speed. That it does so itself,
// and the event that says so, have a test of their own.
func (d *disorder) giveUp() error {
	there, err := d.present()
	if err != nil {
		return err
	}
	claims, err := d.Claims(d.ctx)
	if err != nil {
		return err
	}
	for i := range claims {
		launched := claims[i].StatusConditions().Get(karpenter.ConditionTypeLaunched)
		if !launched.IsTrue() || time.Since(launched.LastTransitionTime.Time) < 15*time.Second || there[claims[i].Status.ProviderID] || claims[i].DeletionTimestamp != nil {
			continue
		}
		if err := client.IgnoreNotFound(d.Client.Delete(d.ctx, &claims[i])); err != nil {
			return err
		}
	}
	return nil
}

// present are the names and the provider ids of the nodes that are there.
func (d *disorder) present() (map[string]bool, error) {
	nodes, err := d.Nodes(d.ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for i := range nodes {
		out[nodes[i].Name], out[nodes[i].Spec.ProviderID] = true, true
	}
	return out, nil
}

// running is an error as long as there are not n pods, all running on nodes
// that are there: of a node that has gone, Kubernetes finds out a minute later.
func (d *disorder) running(n int) error {
	d.revive()
	pods, err := d.Pods(d.ctx, "")
	if err != nil {
		return err
	}
	there, err := d.present()
	if err != nil {
		return err
	}
	var others []string
	for i := range pods {
		if p := &pods[i]; p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning || !there[p.Spec.NodeName] {
			others = append(others, p.Name+" "+strings.ToLower(string(p.Status.Phase))+" on "+cmp.Or(p.Spec.NodeName, "no node"))
		}
	}
	if len(pods) == n && len(others) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d pods run; not so: %s", len(pods)-len(others), len(pods), strings.Join(others[:min(len(others), 5)], ", "))
}
