package health

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/nvml"
)

// A rig is a Monitor at work on a recorded node, within a synctest bubble.
type rig struct {
	t         *testing.T
	lib       *nvml.Recorded
	inv       nvml.Inventory
	monitor   *Monitor
	reports   []Report
	inventory []nvml.Inventory
}

// watch runs f beside a Monitor and stops it then; synctest fails when anything
// that it started is left.
func watch(t *testing.T, recording string, configure func(*Config), f func(*rig)) {
	synctest.Test(t, func(t *testing.T) {
		inv, err := nvml.Recording(recording)
		if err != nil {
			t.Fatal(err)
		}
		policy, err := NewPolicy("", "", "")
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, lib: nvml.NewRecorded(inv), inv: inv}
		cfg := Config{
			Driver: r.lib, Policy: policy, Inventory: inv, Log: slog.New(slog.DiscardHandler),
			OnReport:    func(now Report, _ []Change) { r.reports = append(r.reports, now) },
			OnInventory: func(inv nvml.Inventory) { r.inventory = append(r.inventory, inv) },
		}
		if configure != nil {
			configure(&cfg)
		}
		r.monitor = NewMonitor(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.monitor.Run(ctx); close(done) }()
		synctest.Wait()
		f(r)
		cancel()
		<-done
	})
}

func (r *rig) do(lines ...string) {
	r.t.Helper()
	for _, line := range lines {
		if err := r.lib.Do(line); err != nil {
			r.t.Fatal(err)
		}
	}
	synctest.Wait()
}

func (r *rig) pass(d time.Duration) {
	time.Sleep(d) // the bubble's clock
	synctest.Wait()
}

// sick lists the indices of GPUs that are out.
func (r *rig) sick() []int {
	var out []int
	for _, v := range r.monitor.Report().Verdicts {
		if !v.Healthy && v.UUID == v.GPU {
			out = append(out, v.Index)
		}
	}
	return out
}

func (r *rig) expect(want ...int) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.sick()); diff != "" {
		r.t.Errorf("GPUs that are out (-want +got):\n%s", diff)
	}
}

func TestMonitorHearsXids(t *testing.T) {
	watch(t, "a100", nil, func(r *rig) {
		r.do("xid 13 0", "xid 48 1", "xid 69 2")
		r.expect(1, 2)
		if n := len(r.reports); n != 3 || r.reports[2].Condition.Reason != "NvidiaXID48Error" {
			t.Errorf("%d reports, the last one %+v", n, r.reports[n-1].Condition)
		}
		r.pass(3 * interval)
		r.expect(1)
		want := map[string]uint64{r.inv.GPUs[0].UUID: 13, r.inv.GPUs[1].UUID: 48, r.inv.GPUs[2].UUID: 69}
		if diff := cmp.Diff(want, r.monitor.LastXids()); diff != "" {
			t.Errorf("last Xids (-want +got):\n%s", diff)
		}
	})
}

// Telling may take long: it holds nothing up, and misses nothing.
func TestMonitorTellsSlowListeners(t *testing.T) {
	var told [][]string
	watch(t, "a100", func(c *Config) {
		c.Tell = func(ctx context.Context, _ Report, changes []Change) {
			told = append(told, Summary(changes))
			sleep(ctx, 5*time.Second)
		}
	}, func(r *rig) {
		r.do("xid 48 1", "xid 48 2")
		r.expect(1, 2)
		r.pass(time.Minute)
	})
	var sizes []int
	for _, lines := range told {
		sizes = append(sizes, len(lines))
	}
	if diff := cmp.Diff([]int{0, 2, 0}, sizes); diff != "" {
		t.Errorf("news in each call (-want +got):\n%s", diff)
	}
}

// A driver that breaks takes everything out at once, is tried again with
// growing pauses, and is heard again after it mended.
func TestMonitorOutlivesTheDriver(t *testing.T) {
	watch(t, "a10g", nil, func(r *rig) {
		r.do("break Unknown Error")
		r.expect(0, 1, 2, 3)
		r.pass(10 * time.Minute)
		r.expect(0, 1, 2, 3)
		r.do("mend")
		r.pass(longestWait + GoodProbes*interval)
		r.expect()
		r.do("xid 48 2")
		r.expect(2)
	})
}

func TestMonitorPausesLongerAndLonger(t *testing.T) {
	var tries []time.Duration
	begun := time.Time{}
	watch(t, "t4", func(c *Config) {
		begun = time.Now()
		c.Driver = failing{c.Driver, func() { tries = append(tries, time.Since(begun)) }}
	}, func(r *rig) {
		r.expect(0)
		r.pass(time.Minute)
	})
	want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second, 31 * time.Second}
	if diff := cmp.Diff(want, tries); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// failing is a driver of which no events can be had.
type failing struct {
	Driver
	tried func()
}

func (f failing) Watch(context.Context) (nvml.Events, error) {
	f.tried()
	return nil, errors.New("no event set")
}

// A lost GPU is found by probing, stays on the list, and comes back.
func TestMonitorFindsALostGPU(t *testing.T) {
	watch(t, "a100", nil, func(r *rig) {
		r.do("lose 3")
		r.pass(interval)
		r.expect(3)
		r.pass(2 * rescan)
		r.expect(3)
		if len(r.inventory) > 0 {
			t.Error("the inventory is said to have changed")
		}
		r.do("restore 3")
		r.pass((GoodProbes + 1) * interval)
		r.expect()
	})
}

// Calls that hang put the GPUs out, and do not keep the Monitor from ending.
func TestMonitorWithCallsThatHang(t *testing.T) {
	watch(t, "a10g", nil, func(r *rig) {
		r.do("slow 1h")
		r.pass((badProbes + 1) * interval)
		r.expect(0, 1, 2, 3)
		r.do("slow 0s")
	})
}

func TestMonitorFindsNewInstances(t *testing.T) {
	watch(t, "a100", nil, func(r *rig) {
		r.do("mig 2 3g.20gb")
		r.pass(rescan)
		if len(r.inventory) != 1 || len(r.inventory[0].GPUs[2].Instances) != 1 {
			t.Fatalf("inventories %v", r.inventory)
		}
		if n := len(r.monitor.Report().Verdicts); n != 9 {
			t.Errorf("%d verdicts", n)
		}
	})
}

// A GPU that did not answer at the start is looked for more often.
func TestMonitorFindsAGPUThatWasLostAtTheStart(t *testing.T) {
	watch(t, "mixed", func(c *Config) {
		lib := c.Driver.(*nvml.Recorded)
		if err := lib.Do("lose 1"); err != nil {
			t.Fatal(err)
		}
		c.Inventory, _ = lib.Inventory(t.Context())
	}, func(r *rig) {
		if c := r.monitor.Report().Condition; c.Ready || c.Reason != "NvidiaDeviceLost" {
			t.Errorf("condition %+v", c)
		}
		r.do("restore 1")
		r.pass(interval)
		if len(r.inventory) != 1 || len(r.inventory[0].GPUs) != 3 || !r.monitor.Report().Condition.Ready {
			t.Errorf("inventories %v, condition %+v", r.inventory, r.monitor.Report().Condition)
		}
	})
}

func TestMonitorWithHealthChecksOff(t *testing.T) {
	policy, err := NewPolicy("all", "", "")
	if err != nil {
		t.Fatal(err)
	}
	watch(t, "t4", func(c *Config) { c.Policy = policy }, func(r *rig) {
		r.do("xid 79 0", "lose 0")
		r.pass(3 * rescan)
		r.expect()
	})
}

func TestMonitorKeepsFences(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "fences.json")
	on := func(boot string) func(*Config) { return func(c *Config) { c.Fences, c.Boot = file, boot } }
	watch(t, "a10g", on("first"), func(r *rig) {
		r.do("xid 69 0", "xid 48 1", "xid 79 2")
		r.expect(0, 1, 2)
	})
	watch(t, "a10g", on("first"), func(r *rig) { r.expect(1, 2) })
	watch(t, "a10g", on("second"), func(r *rig) { r.expect() })
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	watch(t, "a10g", on("first"), func(r *rig) {
		r.expect()
		r.do("xid 48 3")
		r.expect(3)
	})
	watch(t, "a10g", on("first"), func(r *rig) { r.expect(3) })
}
