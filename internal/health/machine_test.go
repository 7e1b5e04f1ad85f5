package health

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/kerfdev/kerf/internal/nvml"
)

var update = flag.Bool("update", false, "write what the scripts say into their files")

// A scenario is what happens to a recorded node, line by line, and what the
// machine makes of it. Each line begins with the time since the start:
//
//	0s  xid 48 0 [gi ci]      the driver reports an Xid ("?" for an unnamed GPU)
//	10s probe 0 ok [recovery] GPU 0 answers; "all" for every GPU
//	10s probe 0 lost          it is lost; any other words are another failure
//	10s broken TEXT           the driver fails
//	10s watched [0 TEXT]      it works, and has no events of GPU 0
//	10s rescan                a new inventory, after faults of nvml.Recorded.Do:
//	10s do mig 0 1g.5gb
//	10s restart [boot]        the agent starts anew, on the same boot or another
//	10s report                how everything is
type scenario struct {
	t       *testing.T
	start   time.Time
	lib     *nvml.Recorded
	policy  Policy
	machine *Machine
	boot    int
	out     strings.Builder
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := map[string]string{}
			for _, f := range archive.Files {
				parts[f.Name] = string(f.Data)
			}
			got := play(t, parts)
			if *update {
				archive.Files[len(archive.Files)-1].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(parts["want"], got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func play(t *testing.T, parts map[string]string) string {
	inv, err := nvml.Recording(strings.TrimSpace(parts["inventory"]))
	if err != nil {
		t.Fatal(err)
	}
	s := &scenario{t: t, start: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), lib: nvml.NewRecorded(inv)}
	env := map[string]string{}
	for line := range strings.Lines(parts["policy"]) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[k] = v
	}
	if s.policy, err = NewPolicy(env["DP_DISABLE_HEALTHCHECKS"], env["DP_ENABLE_HEALTHCHECKS"], env["KERF_XID_CLASSES"]); err != nil {
		t.Fatal(err)
	}
	s.machine = NewMachine(s.policy, s.start, s.inventory())
	for line := range strings.Lines(parts["script"]) {
		if line = strings.TrimSpace(line); line != "" {
			s.line(line)
		}
	}
	return s.out.String()
}

func (s *scenario) inventory() nvml.Inventory {
	inv, err := s.lib.Inventory(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return inv
}

func (s *scenario) line(line string) {
	fmt.Fprintf(&s.out, "> %s\n", line)
	f := strings.Fields(line)
	after, err := time.ParseDuration(f[0])
	if err != nil || len(f) < 2 {
		s.t.Fatalf("line %q: %v", line, err)
	}
	at := s.start.Add(after)
	var changes []Change
	switch f[1] {
	case "xid":
		changes = s.machine.Event(at, s.event(f[2:]))
	case "probe":
		for _, g := range s.inventoryBefore() {
			if f[2] == "all" || f[2] == strconv.Itoa(g.Index) {
				changes = append(changes, s.probe(at, g.UUID, f[3:])...)
			}
		}
	case "broken":
		changes = s.machine.Broken(at, errors.New(strings.Join(f[2:], " ")))
	case "watched":
		unwatched := map[string]error{}
		if len(f) > 2 {
			unwatched[s.uuid(f[2])] = errors.New(strings.Join(f[3:], " "))
		}
		changes = s.machine.Watched(at, unwatched)
	case "do":
		if err := s.lib.Do(strings.Join(f[2:], " ")); err != nil {
			s.t.Fatal(err)
		}
	case "rescan":
		changes = s.machine.Update(at, s.inventory())
	case "restart":
		changes = s.restart(at, len(f) > 2)
	case "report":
		s.report()
	default:
		s.t.Fatalf("line %q is not known", line)
	}
	for _, c := range changes {
		mark := "-"
		if c.Healthy {
			mark = "+"
		}
		fmt.Fprintf(&s.out, "%s %s  %s\n", mark, s.device(c.UUID), c.Fault)
	}
}

func (s *scenario) event(f []string) nvml.Event {
	n, err := strconv.ParseUint(f[0], 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	e := nvml.Event{Xid: n, UUID: s.uuid(f[1]), GI: nvml.WholeGPU, CI: nvml.WholeGPU}
	if len(f) == 4 {
		if _, err := fmt.Sscan(f[2]+" "+f[3], &e.GI, &e.CI); err != nil {
			s.t.Fatal(err)
		}
	}
	return e
}

func (s *scenario) probe(at time.Time, uuid string, f []string) []Change {
	switch {
	case f[0] == "ok" && len(f) > 1:
		return s.machine.Probe(at, uuid, nvml.Probe{Recovery: nvml.Recovery(f[1])}, nil)
	case f[0] == "ok":
		return s.machine.Probe(at, uuid, nvml.Probe{}, nil)
	case f[0] == "lost":
		return s.machine.Probe(at, uuid, nvml.Probe{}, nvml.ErrLost)
	}
	return s.machine.Probe(at, uuid, nvml.Probe{}, errors.New(strings.Join(f, " ")))
}

func (s *scenario) restart(at time.Time, booted bool) []Change {
	boot := strconv.Itoa(s.boot)
	fences := s.machine.Fences(boot)
	if booted {
		s.boot++
	}
	s.machine = NewMachine(s.policy, at, s.inventory())
	return s.machine.Restore(at, fences, strconv.Itoa(s.boot))
}

func (s *scenario) report() {
	r := s.machine.Report()
	fmt.Fprintf(&s.out, "  %s=%v %s: %s\n", ConditionType, r.Condition.Ready, r.Condition.Reason, s.short(r.Condition.Message))
	for _, v := range r.Verdicts {
		if !v.Healthy {
			fmt.Fprintf(&s.out, "  %s  %s\n", s.device(v.UUID), v.Fault)
		}
	}
}

func (s *scenario) inventoryBefore() []nvml.GPU {
	var out []nvml.GPU
	for _, c := range s.machine.cards {
		out = append(out, c.GPU)
	}
	return out
}

// uuid is that of the GPU at an index.
func (s *scenario) uuid(index string) string {
	for _, g := range s.inventoryBefore() {
		if strconv.Itoa(g.Index) == index {
			return g.UUID
		}
	}
	if index != "?" {
		return "GPU-of-another-node"
	}
	return ""
}

// device names a device by its index.
func (s *scenario) device(uuid string) string {
	for _, g := range s.inventoryBefore() {
		if g.UUID == uuid {
			return fmt.Sprintf("GPU %d", g.Index)
		}
		for _, in := range g.Instances {
			if in.UUID == uuid {
				return fmt.Sprintf("GPU %d:%d %s", g.Index, in.Index, in.Profile)
			}
		}
	}
	return uuid
}

// short leaves UUIDs out.
func (s *scenario) short(text string) string {
	for _, g := range s.inventoryBefore() {
		text = strings.ReplaceAll(text, " ("+g.UUID+")", "")
	}
	return text
}
