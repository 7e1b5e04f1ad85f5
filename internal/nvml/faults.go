package nvml

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Do makes something happen to the recorded machine. One line is one fault; a
// GPU is named by its index or its UUID:
//
//	xid 48 0            an Xid of GPU 0, as a whole
//	xid 48 0 2 0        an Xid of GPU 0's GPU instance 2, compute instance 0
//	xid 48 ?            an Xid of a GPU that the driver cannot name
//	lose 3              GPU 3 answers no more
//	restore 3           and answers again
//	recovery 3 reset    the driver wants GPU 3 reset: none, reset, reboot or drain
//	deaf 3 [text]       no events of GPU 3; without a text, since it has none
//	slow 1s             every call takes this long
//	break [text]        the library fails, and every delivery of events with it
//	mend                and works again
//	mig 0 1g.5gb ...    instances appear on GPU 0, which goes into MIG mode
//	unmig 0             its instances go, and MIG mode with them
//
// An error says what is wrong with the line.
func (r *Recorded) Do(line string) error {
	f := strings.Fields(line)
	if len(f) == 0 {
		return errors.New("an empty fault")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.do(f[0], f[1:]); err != nil {
		return fmt.Errorf("fault %q: %w", line, err)
	}
	return nil
}

func (r *Recorded) do(verb string, args []string) error {
	switch verb {
	case "mend":
		r.broken = nil
		return nil
	case "break":
		r.broken = errors.New(text(args, "unknown error"))
		r.fail(r.broken)
		return nil
	case "slow":
		d, err := time.ParseDuration(strings.Join(args, " "))
		if err != nil {
			return errors.New("expected a duration such as 1s")
		}
		r.slow = d
		return nil
	case "xid":
		return r.xid(args)
	case "lose", "restore", "recovery", "deaf", "mig", "unmig":
	default:
		return errors.New("no such fault")
	}
	if len(args) == 0 {
		return errors.New("which GPU?")
	}
	g, err := r.find(args[0])
	if err != nil {
		return err
	}
	return r.doTo(g, verb, args[1:])
}

// doTo is do for what happens to one GPU.
func (r *Recorded) doTo(g *GPU, verb string, args []string) error {
	switch verb {
	case "lose":
		r.lost[g.UUID] = true
	case "restore":
		delete(r.lost, g.UUID)
	case "recovery":
		known := []string{string(RecoveryNone), string(RecoveryReset), string(RecoveryReboot), string(RecoveryDrain)}
		if len(args) != 1 || !slices.Contains(known, args[0]) {
			return fmt.Errorf("expected one of %s", strings.Join(known, ", "))
		}
		r.recovery[g.UUID] = Recovery(args[0])
	case "deaf":
		r.deaf[g.UUID] = ErrNotSupported
		if len(args) > 0 {
			r.deaf[g.UUID] = errors.New(text(args, ""))
		}
	case "mig":
		return r.add(g, args)
	case "unmig":
		g.MIG, g.Instances = MIGDisabled, nil
	}
	return nil
}

// xid sends an event to every delivery.
func (r *Recorded) xid(args []string) error {
	if len(args) != 2 && len(args) != 4 {
		return errors.New("expected an Xid and a GPU, then perhaps GPU and compute instance")
	}
	e := Event{GI: WholeGPU, CI: WholeGPU}
	var err error
	if e.Xid, err = strconv.ParseUint(args[0], 10, 64); err != nil {
		return fmt.Errorf("%q is no Xid", args[0])
	}
	if args[1] != "?" {
		g, err := r.find(args[1])
		if err != nil {
			return err
		}
		e.UUID = g.UUID
	}
	if len(args) == 4 {
		gi, err1 := strconv.ParseUint(args[2], 10, 32)
		ci, err2 := strconv.ParseUint(args[3], 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return fmt.Errorf("%q, %q are no instances", args[2], args[3])
		}
		e.GI, e.CI = uint32(gi), uint32(ci)
	}
	for q := range r.watching {
		if q.unwatched[e.UUID] == nil {
			q.events = append(q.events, e)
			q.wake()
		}
	}
	return nil
}

// add makes instances with the next free index and GPU instance.
func (r *Recorded) add(g *GPU, profiles []string) error {
	if len(profiles) == 0 {
		return errors.New("which profiles?")
	}
	g.MIG = MIGEnabled
	for _, p := range profiles {
		size, memory, ok := strings.Cut(p, "g.")
		n, err1 := strconv.Atoi(size)
		gib, err2 := strconv.Atoi(strings.TrimSuffix(memory, "gb"))
		if !ok || err1 != nil || err2 != nil {
			return fmt.Errorf("%q is no MIG profile", p)
		}
		in := Instance{Profile: p, MemoryMiB: int64(gib) * 1024, GPUSlices: n, ComputeSlices: n, GI: 1}
		for _, other := range g.Instances {
			in.Index, in.GI = max(in.Index, other.Index+1), max(in.GI, other.GI+1)
		}
		r.made++
		in.UUID = fmt.Sprintf("MIG-00000000-0000-0000-0000-%012d", r.made)
		in.Caps = capsOf(g.Minor, int(in.GI))
		g.Instances = append(g.Instances, in)
	}
	return nil
}

// capsOf names the device nodes of a GPU instance and of its first compute
// instance by the driver's numbering: 9 nodes for each of 15 instances of a GPU,
// from 3 on.
func capsOf(minor, gi int) []string {
	n := 3 + 135*minor + 9*gi
	return []string{fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", n), fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", n+1)}
}

func (r *Recorded) find(name string) (*GPU, error) {
	for i := range r.inv.GPUs {
		if g := &r.inv.GPUs[i]; g.UUID == name || strconv.Itoa(g.Index) == name {
			return g, nil
		}
	}
	return nil, fmt.Errorf("no GPU %s", name)
}

func text(words []string, otherwise string) string {
	if len(words) == 0 {
		return otherwise
	}
	return strings.Join(words, " ")
}
