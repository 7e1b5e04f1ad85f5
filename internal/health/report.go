package health

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/kerfdev/kerf/internal/nvml"
)

// A Kind says what is wrong.
type Kind uint8

// The kinds of fault, from the lightest to the gravest.
const (
	Unwatched Kind = iota // no events come of the GPU, so that nobody would know
	Xid                   // the GPU reported one
	Recovery              // the driver wants the GPU reset or the machine booted
	Lost                  // the GPU does not answer
	Broken                // the driver as a whole fails
)

// A Fault is one thing that is wrong with a GPU or with one of its instances.
type Fault struct {
	Kind  Kind
	Xid   uint64
	Class Class
	Since time.Time
	GI    uint32 // the instance that it concerns, or nvml.WholeGPU; both 0 for faults other than Xids
	CI    uint32
	Text  string // the driver's words, or ""
}

// A Verdict is what is known of one GPU or MIG instance.
type Verdict struct {
	UUID    string // of the device: a whole GPU, or an instance
	GPU     string // UUID of the physical GPU
	Index   int    // the driver's index of that GPU
	Healthy bool
	Fault   Fault // the gravest one, when unhealthy
}

// A Change is a device that has become healthy or unhealthy. The Fault of one
// that recovered is the one that is over.
type Change struct {
	At time.Time
	Verdict
}

// ConditionType is the node condition that the EKS node monitoring agent sets
// for accelerators, and that Karpenter's AWS provider repairs nodes by.
const ConditionType = "AcceleratedHardwareReady"

// A Condition is the node condition: Reason carries the Xid in the form that
// Karpenter's repair policies look for (v1.15.0: ".*XID(64|74|79|119|120).*"
// replaces the node, other listed ones reboot it, the rest replaces it later).
type Condition struct {
	Ready   bool
	Reason  string
	Message string
}

// A Report is the health of a node.
type Report struct {
	Verdicts  []Verdict // whole GPUs and MIG instances, in index order
	Condition Condition
}

// Unhealthy lists the devices that may not be handed out, by UUID.
func (r Report) Unhealthy() map[string]Fault {
	out := map[string]Fault{}
	for _, v := range r.Verdicts {
		if !v.Healthy {
			out[v.UUID] = v.Fault
		}
	}
	return out
}

// Report says how every device is. A GPU in MIG mode is judged by its
// instances, and as a whole too, since it may be served whole.
func (m *Machine) Report() Report {
	var out Report
	for _, c := range m.cards {
		out.Verdicts = append(out.Verdicts, m.judge(c, c.UUID, nvml.WholeGPU, nvml.WholeGPU))
		for _, in := range c.Instances {
			out.Verdicts = append(out.Verdicts, m.judge(c, in.UUID, in.GI, in.CI))
		}
	}
	out.Condition = m.condition()
	return out
}

// judge finds the gravest fault of a card that concerns one of its devices.
func (m *Machine) judge(c *card, uuid string, gi, ci uint32) Verdict {
	v := Verdict{UUID: uuid, GPU: c.UUID, Index: c.Index, Healthy: true}
	if m.broken != nil {
		v.Healthy, v.Fault = false, *m.broken
		return v
	}
	for _, f := range c.faults {
		if f.concerns(gi, ci) && (v.Healthy || f.graver(v.Fault)) {
			v.Healthy, v.Fault = false, f
		}
	}
	return v
}

// concerns reports whether a fault is one of a device: a whole GPU has those of
// all its instances.
func (f Fault) concerns(gi, ci uint32) bool {
	if f.Kind != Xid || gi == nvml.WholeGPU {
		return true
	}
	return (f.GI == nvml.WholeGPU || f.GI == gi) && (f.CI == nvml.WholeGPU || f.CI == ci)
}

// graver orders faults: first by class, a lost GPU being as grave as a Reset.
// Of two alike, that which gets the node replaced, then that with an Xid, which
// says more.
func (f Fault) graver(g Fault) bool {
	if a, b := f.weight(), g.weight(); a != b {
		return a > b
	}
	if a, b := replaced[f.Xid], replaced[g.Xid]; a != b {
		return a
	}
	return f.Kind == Xid && g.Kind != Xid
}

func (f Fault) weight() Class {
	if f.Kind == Lost || f.Kind == Broken {
		return Reset
	}
	return f.Class
}

// condition sums up: the gravest fault gives the reason.
func (m *Machine) condition() Condition {
	if m.broken != nil {
		return Condition{Reason: m.broken.reason(), Message: "the driver fails: " + m.broken.Text}
	}
	var worst *Fault
	var title string
	sick := 0
	for _, c := range m.cards {
		if len(c.faults) > 0 {
			sick++
		}
		for i := range c.faults {
			if worst == nil || c.faults[i].graver(*worst) {
				worst, title = &c.faults[i], c.title()
			}
		}
	}
	all := len(m.cards) + len(m.unnamed)
	sick += len(m.unnamed)
	switch {
	case worst != nil:
		return Condition{Reason: worst.reason(), Message: fmt.Sprintf("%s: %s%s; %d of %d GPUs affected", title, worst, worst.outlook(), sick, all)}
	case len(m.unnamed) > 0:
		lost := Fault{Kind: Lost, Text: m.unnamed[0].Why}
		if len(m.absent) > 0 { // it is known from before what became of it
			lost = m.absent[0].fault()
		}
		return Condition{Reason: lost.reason(), Message: fmt.Sprintf("GPU %d: %s%s; %d of %d GPUs affected", m.unnamed[0].Index, lost, lost.outlook(), sick, all)}
	}
	return Condition{Ready: true, Reason: "NvidiaAcceleratedHardwareIsReady", Message: fmt.Sprintf("all %d GPUs are healthy", all)}
}

// reason is what the node condition gives as its reason.
func (f Fault) reason() string {
	switch f.Kind {
	case Xid:
		return "NvidiaXID" + strconv.FormatUint(f.Xid, 10) + "Error"
	case Recovery:
		return "NvidiaRecoveryRequired"
	case Lost:
		return "NvidiaDeviceLost"
	case Broken:
		return "NvidiaNVMLError"
	}
	return "NvidiaDeviceUnwatched"
}

// String says what is wrong in words.
func (f Fault) String() string {
	var text string
	switch f.Kind {
	case Xid:
		text = name(f.Xid)
		if f.GI != nvml.WholeGPU {
			text += fmt.Sprintf(" of GPU instance %d", f.GI)
		}
		if f.Text != "" {
			text += ", " + f.Text
		}
		return text
	case Recovery:
		return "the driver asks for recovery: " + f.Text
	case Lost:
		text = "does not answer"
	case Broken:
		text = "the driver fails"
	case Unwatched:
		text = "no health events can be had"
	}
	if f.Text != "" {
		text += ": " + f.Text
	}
	return text
}

// outlook says what ends a fault, "" for one that ends with its cause.
func (f Fault) outlook() string {
	if f.Kind != Xid {
		return ""
	}
	return [...]string{"", "; it returns when it answers probes", "; a reset is needed", "; the machine must be booted, or replaced"}[f.Class]
}

// Summary writes changes for an event of the node, devices with one fault together.
func Summary(changes []Change) []string {
	var out []string
	for _, c := range changes {
		line := fmt.Sprintf("GPU %d (%s) is out of service: %s%s", c.Index, c.GPU, c.Fault, c.Fault.outlook())
		if c.Healthy {
			line = fmt.Sprintf("GPU %d (%s) is back in service, after: %s", c.Index, c.GPU, c.Fault)
		}
		if !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}
