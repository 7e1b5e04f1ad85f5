// Package health decides which GPUs of a node may be handed out, from what the
// driver reports: Xids, GPUs that do not answer, and a driver that fails.
//
// [Machine] is the decision alone: what happened goes in with its time, and
// verdicts come out, one for each GPU and MIG instance. It holds no clock, lock
// or driver. [Monitor] feeds it from a driver and tells whoever asks to be told.
//
// How a GPU comes back:
//
//   - after Transient Xids, when it answered GoodProbes probes in a row and the
//     driver asks for no reset. Out a third time within an hour, it counts as Reset;
//   - after a Reset Xid, when it was lost and answers again, or when the driver
//     asked for a recovery and does so no more, GoodProbes times in a row; or
//     when the machine was booted;
//   - after a Fatal Xid, when the machine was booted;
//   - when it was lost, when it answers GoodProbes times in a row;
//   - when the driver failed, when the driver works again.
//
// Fences (Reset and Fatal) outlive a restart of the agent: see [Machine.Fences].
package health

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/kerfdev/kerf/internal/nvml"
)

const (
	// GoodProbes is how many probes in a row a GPU has to answer.
	GoodProbes = 3
	// badProbes is how many in a row may fail, other than for a lost GPU.
	badProbes = 3
	// What takes a GPU out so often within the window is not transient.
	relapses = 3
	window   = time.Hour
)

// A Machine holds the health of a node's GPUs.
type Machine struct {
	policy  Policy
	cards   []*card           // in index order
	broken  *Fault            // the driver as a whole
	unnamed []nvml.Unreadable // GPUs that have never answered
	absent  []Fence           // of GPUs that are not on the list
}

// A card is one GPU with what is wrong with it.
type card struct {
	nvml.GPU
	faults []Fault
	good   int  // probes answered in a row
	bad    int  // probes failed in a row
	asked  bool // the driver asked for a recovery since the last fault
	xid    uint64
	seen   []time.Time // when Transient Xids took the GPU out
}

// NewMachine starts with every GPU of an inventory healthy, but for those that
// do not answer.
func NewMachine(p Policy, at time.Time, inv nvml.Inventory) *Machine {
	m := &Machine{policy: p}
	m.Update(at, inv)
	return m
}

// Update takes a new inventory. GPUs keep what is known of them, and a known
// GPU that does not answer stays on the list.
func (m *Machine) Update(at time.Time, inv nvml.Inventory) []Change {
	return m.changes(at, func() {
		before := map[string]*card{}
		for _, c := range m.cards {
			before[c.UUID] = c
		}
		m.cards, m.unnamed = nil, nil
		for _, g := range inv.GPUs {
			c := before[g.UUID]
			if c == nil {
				c = &card{}
			}
			c.GPU = g
			m.cards = append(m.cards, c)
			delete(before, g.UUID)
		}
		for _, u := range inv.Unreadable {
			c := before[u.UUID]
			if c == nil {
				m.unnamed = append(m.unnamed, u)
				continue
			}
			m.cards = append(m.cards, c)
			if !m.policy.Off() {
				c.add(Fault{Kind: Lost, Since: at, Text: u.Why})
			}
		}
		slices.SortFunc(m.cards, func(a, b *card) int { return cmp.Compare(a.Index, b.Index) })
		m.fence(m.absent)
	})
}

// Event takes what a driver reported. One that it cannot name the GPU of
// concerns all; probes tell soon which it was.
func (m *Machine) Event(at time.Time, e nvml.Event) []Change {
	class := m.policy.Class(e.Xid)
	return m.changes(at, func() {
		for _, c := range m.cards {
			if e.UUID != "" && e.UUID != c.UUID {
				continue
			}
			c.xid = e.Xid
			if class == Ignored {
				continue
			}
			f := Fault{Kind: Xid, Xid: e.Xid, Class: class, Since: at, GI: e.GI, CI: e.CI}
			if e.UUID == "" {
				f.Class = Transient
			} else if class == Transient {
				c.relapse(at, &f)
			}
			c.add(f)
		}
	})
}

// Probe takes the answer of one GPU.
func (m *Machine) Probe(at time.Time, uuid string, p nvml.Probe, err error) []Change {
	return m.changes(at, func() {
		i := slices.IndexFunc(m.cards, func(c *card) bool { return c.UUID == uuid })
		if i < 0 {
			return
		}
		c := m.cards[i]
		switch {
		case errors.Is(err, nvml.ErrLost):
			c.add(Fault{Kind: Lost, Since: at, Text: err.Error()})
		case err != nil:
			c.good = 0
			if c.bad++; c.bad >= badProbes {
				c.add(Fault{Kind: Lost, Since: at, Text: err.Error()})
			}
		case p.Recovery != nvml.RecoveryUnknown && p.Recovery != nvml.RecoveryNone:
			c.asked = true
			c.add(Fault{Kind: Recovery, Class: Reset, Since: at, Text: string(p.Recovery)})
		default:
			c.bad = 0
			if c.good++; c.good >= GoodProbes {
				c.recover(p)
			}
		}
	})
}

// Broken says that the driver as a whole fails.
func (m *Machine) Broken(at time.Time, err error) []Change {
	return m.changes(at, func() {
		if m.broken == nil {
			m.broken = &Fault{Kind: Broken, Since: at, Text: err.Error()}
		}
	})
}

// Watched says that the driver works and delivers events, save for the GPUs
// named. One that has no events to report is healthy all the same.
func (m *Machine) Watched(at time.Time, unwatched map[string]error) []Change {
	return m.changes(at, func() {
		m.broken = nil
		for _, c := range m.cards {
			c.remove(func(f Fault) bool { return f.Kind == Unwatched })
			switch err := unwatched[c.UUID]; {
			case errors.Is(err, nvml.ErrLost):
				c.add(Fault{Kind: Lost, Since: at, Text: err.Error()})
			case err != nil && !errors.Is(err, nvml.ErrNotSupported):
				c.add(Fault{Kind: Unwatched, Since: at, Text: err.Error()})
			}
		}
	})
}

// relapse makes a Transient Xid a Reset one when it takes the GPU out for the
// third time within an hour. One failure may come as a burst of Xids.
func (c *card) relapse(at time.Time, f *Fault) {
	if slices.ContainsFunc(c.faults, func(f Fault) bool { return f.Kind == Xid }) {
		return // it is out already
	}
	c.seen = append(slices.DeleteFunc(c.seen, func(t time.Time) bool { return at.Sub(t) > window }), at)
	if len(c.seen) >= relapses {
		f.Class, f.Text = Reset, strconv.Itoa(len(c.seen))+" times within an hour"
	}
}

// add notes a fault; one that is there already only grows graver.
func (c *card) add(f Fault) {
	c.good = 0
	if f.Kind == Xid {
		c.asked = false
	}
	for i, old := range c.faults {
		if old.Kind == f.Kind && old.Xid == f.Xid && old.GI == f.GI && old.CI == f.CI {
			f.Since, f.Class = old.Since, max(old.Class, f.Class)
			c.faults[i] = f
			return
		}
	}
	c.faults = append(c.faults, f)
}

// recover takes away what good probes prove to be over.
func (c *card) recover(p nvml.Probe) {
	wasLost := slices.ContainsFunc(c.faults, func(f Fault) bool { return f.Kind == Lost })
	wasReset := wasLost || (c.asked && p.Recovery == nvml.RecoveryNone)
	c.remove(func(f Fault) bool {
		return f.Kind == Lost || f.Kind == Recovery || f.Kind == Xid && (f.Class == Transient || f.Class == Reset && wasReset)
	})
}

func (c *card) remove(over func(Fault) bool) { c.faults = slices.DeleteFunc(c.faults, over) }

// changes runs f and says which devices it made healthy or unhealthy.
func (m *Machine) changes(at time.Time, f func()) []Change {
	before := map[string]Verdict{}
	for _, v := range m.Report().Verdicts {
		before[v.UUID] = v
	}
	f()
	var out []Change
	for _, v := range m.Report().Verdicts {
		old, known := before[v.UUID]
		if v.Healthy == (!known || old.Healthy) {
			continue
		}
		c := Change{At: at, Verdict: v}
		if v.Healthy {
			c.Fault = old.Fault // the one that is over
		}
		out = append(out, c)
	}
	return out
}

// A Fence is a fault that outlives the agent.
type Fence struct {
	GPU   string    `json:"gpu"`
	Xid   uint64    `json:"xid"`
	GI    uint32    `json:"gi"`
	CI    uint32    `json:"ci"`
	Class string    `json:"class"` // "reset" or "fatal"
	Since time.Time `json:"since"`
	Boot  string    `json:"boot"` // the kernel's boot id
}

// Fences lists the faults that only a reset or a boot ends.
func (m *Machine) Fences(boot string) []Fence {
	out := slices.Clone(m.absent)
	for _, c := range m.cards {
		for _, f := range c.faults {
			if f.Kind == Xid && f.Class >= Reset {
				out = append(out, Fence{GPU: c.UUID, Xid: f.Xid, GI: f.GI, CI: f.CI, Class: f.Class.String(), Since: f.Since, Boot: boot})
			}
		}
	}
	return out
}

// Restore puts fences back that were there before the agent started, except
// those of an earlier boot and those of Xids that the policy ignores by now. The
// fence of a GPU that does not answer yet waits for it.
func (m *Machine) Restore(at time.Time, fences []Fence, boot string) []Change {
	return m.changes(at, func() {
		m.fence(slices.DeleteFunc(slices.Clone(fences), func(f Fence) bool {
			return f.Boot != boot || m.policy.Class(f.Xid) == Ignored
		}))
	})
}

// fence puts fences on the GPUs that are there and keeps the others.
func (m *Machine) fence(fences []Fence) {
	m.absent = nil
	for _, f := range fences {
		i := slices.IndexFunc(m.cards, func(c *card) bool { return c.UUID == f.GPU })
		if i < 0 {
			m.absent = append(m.absent, f)
			continue
		}
		m.cards[i].xid = f.Xid
		m.cards[i].add(f.fault())
	}
}

func (f Fence) fault() Fault {
	out := Fault{Kind: Xid, Xid: f.Xid, Class: Reset, Since: f.Since, GI: f.GI, CI: f.CI}
	if f.Class == Fatal.String() {
		out.Class = Fatal
	}
	return out
}

// LastXids says which Xid each GPU reported last, ignored ones too.
func (m *Machine) LastXids() map[string]uint64 {
	out := map[string]uint64{}
	for _, c := range m.cards {
		if c.xid != 0 {
			out[c.UUID] = c.xid
		}
	}
	return out
}

// title names a GPU for people.
func (c *card) title() string { return fmt.Sprintf("GPU %d (%s)", c.Index, c.UUID) }
