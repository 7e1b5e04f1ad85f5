package nvml

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/gpu"
)

func recording(t *testing.T, name string) Inventory {
	t.Helper()
	inv, err := Recording(name)
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func TestRecordingsAreServed(t *testing.T) {
	want := map[string]int64{
		"a100": 8, "a100-mig": 2, "a100-mig-uniform": 2, "a10g": 4, "dgx1-v100": 8, "gb10": 1, "h100": 8, "h200": 8, "l4": 1, "mixed": 3, "mock": 2, "t4": 1,
	}
	got := map[string]int64{}
	for _, name := range Recordings() {
		served, err := gpu.Serve(recording(t, name).Node(), deviceconfig.Config{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got[name] = served.Resources["nvidia.com/gpu"]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
}

// A live A100 gives what the catalogue predicts, in each way of cutting it.
func TestRecordingsGiveWhatIsPredicted(t *testing.T) {
	for _, strategy := range []string{"", "single", "mixed"} {
		cfg := deviceconfig.Config{Flags: deviceconfig.Flags{MIGStrategy: strategy}}
		cfg.TimeSlicing = &deviceconfig.Replicated{Resources: []deviceconfig.Resource{{Name: "nvidia.com/gpu", Replicas: 3}, {Name: "nvidia.com/mig-1g.5gb", Replicas: 2}}}
		served, err := gpu.Serve(recording(t, "a100-mig-uniform").Node(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int64{"": 6, "single": 42, "mixed": 28}[strategy]
		if got := served.Resources["nvidia.com/gpu"] + served.Resources["nvidia.com/mig-1g.5gb"]; got != want {
			t.Errorf("strategy %q: %v", strategy, served.Resources)
		}
		whole := slices.ContainsFunc(served.Units, func(u gpu.Unit) bool { return u.Instance < 0 })
		if whole != (strategy == "") {
			t.Errorf("strategy %q: a GPU is served beside its instances, or instead: %+v", strategy, served.Units)
		}
	}
}

func TestEncodeIsReadAgain(t *testing.T) {
	for _, name := range Recordings() {
		inv := recording(t, name)
		data, err := Encode(inv)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(data)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, data)
		}
		if diff := cmp.Diff(inv, again); diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	const gpu0 = "version: v1\ngpus:\n- {index: 0, minor: 0, uuid: GPU-0, name: T4"
	for name, test := range map[string]struct{ text, err string }{
		"an empty file":              {"", "the inventory is empty"},
		"another version":            {"version: v2\ngpus: []", `version "v2": this program reads inventories of version v1`},
		"a field that is not known":  {gpu0 + ", memory: 3}", "line 3: unknown field memory"},
		"a field given twice":        {"version: v1\ngpus: []\ngpus: []", `line 3: mapping key "gpus" already defined at line 2`},
		"a wrong type":               {"version: v1\ngpus:\n- {index: zero}", "line 3: cannot unmarshal !!str `zero` into int"},
		"an index given twice":       {gpu0 + "}\n- {index: 0, uuid: GPU-1}", "GPU index 0 is given twice"},
		"a UUID given twice":         {gpu0 + "}\n- {index: 1, uuid: GPU-0}", "GPU 1: uuid GPU-0 is given twice"},
		"a UUID that is none":        {"version: v1\ngpus:\n- {index: 0, uuid: x}", `GPU 0: uuid "x": expected one that begins with GPU-`},
		"a bus id that is none":      {gpu0 + ", pci: 1e.0}", `GPU 0: pci "1e.0": expected a bus id such as 0000:10:1c.0`},
		"a MIG mode that is none":    {gpu0 + ", mig: on}", `GPU 0: mig "on": expected enabled or disabled, or nothing for a GPU without MIG`},
		"instances outside MIG mode": {gpu0 + ", instances: [{index: 0, uuid: MIG-0, profile: 1g.5gb}]}", "GPU 0 has instances and is not in MIG mode: set mig: enabled"},
		"an instance without profile": {
			gpu0 + ", mig: enabled, instances: [{index: 0, uuid: MIG-0}]}",
			`GPU 0, instance 0: profile "": expected a MIG profile such as 1g.5gb`,
		},
		"a link to nowhere":      {gpu0 + "}\nlinks: [{a: 0, b: 3}]", "a link joins GPU 0 and GPU 3, which are not two GPUs of the inventory"},
		"a path that is unknown": {gpu0 + "}\n- {index: 1, uuid: GPU-1}\nlinks: [{a: 0, b: 1, path: far}]", `the link of GPU 0 and GPU 1: path "far" is not known`},
	} {
		if _, err := Decode([]byte(test.text)); err == nil || err.Error() != test.err {
			t.Errorf("%s: error %v, want %s", name, err, test.err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range Recordings() {
		data, err := recordings.ReadFile("inventories/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		inv, err := Decode(data)
		if err != nil {
			return
		}
		if _, err := gpu.Serve(inv.Node(), deviceconfig.Config{Flags: deviceconfig.Flags{MIGStrategy: "mixed"}}); err != nil {
			t.Fatal(err)
		}
		again, err := Encode(inv)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(again); err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
	})
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "node.yaml")
	if err := os.WriteFile(file, []byte("version: v3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err == nil || err.Error() != file+`: version "v3": this program reads inventories of version v1` {
		t.Errorf("a bad file: %v", err)
	}
	if inv, err := Load("t4"); err != nil || len(inv.GPUs) != 1 {
		t.Errorf("a recording: %v, %v", inv, err)
	}
	if _, err := Load("t5"); err == nil || !strings.HasPrefix(err.Error(), "read inventory t5: no such file; give a file written by `kerf-node inventory`, or a recording: a100, ") {
		t.Errorf("neither: %v", err)
	}
}

func TestPaths(t *testing.T) {
	inv := recording(t, "a100-mig")
	if diff := cmp.Diff([]string{"/dev/nvidia1"}, inv.Paths(1, -1)); diff != "" {
		t.Errorf("whole GPU: %s", diff)
	}
	want := []string{"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22"}
	if diff := cmp.Diff(want, inv.Paths(0, 0)); diff != "" {
		t.Errorf("instance: %s", diff)
	}
}

func TestScore(t *testing.T) {
	for name, test := range map[string]struct {
		link Link
		want int
	}{
		"nothing in common":          {Link{}, 0},
		"two sockets":                {Link{Path: CrossCPU}, 10},
		"one board":                  {Link{Path: SameBoard}, 60},
		"two NVLinks beside PCIe":    {Link{Path: SingleSwitch, NVLinks: 2}, 250},
		"twelve NVLinks, PCIe apart": {Link{Path: CrossCPU, NVLinks: 12}, 1210},
	} {
		if got := test.link.Score(); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// A driver is found in NVIDIA's order of places; nothing found names them all
// and what to do.
func TestSearch(t *testing.T) {
	root := t.TempDir()
	library, tried := Search(root)
	if library != Soname || len(tried) != 7 || tried[0] != filepath.Join(root, "usr/lib64", Soname) || tried[6] != Soname {
		t.Errorf("nothing there: %s, tried %q", library, tried)
	}
	err := (&NotFoundError{Tried: tried}).Error()
	for _, want := range append(slices.Clone(tried), "runtimeClassName: nvidia", "--driver-root-ctr-path") {
		if !strings.Contains(err, want) {
			t.Errorf("the error does not name %s: %s", want, err)
		}
	}
	for _, dir := range []string{"lib64", "usr/lib/x86_64-linux-gnu"} { // the second one comes first
		file := filepath.Join(root, dir, Soname)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		if library, _ = Search(root); library != file {
			t.Errorf("found %s, want %s", library, file)
		}
	}
}

func TestMissing(t *testing.T) {
	ctx, want := t.Context(), &NotFoundError{Tried: []string{Soname}}
	var lib Library = Missing{Err: want}
	_, err1 := lib.Inventory(ctx)
	_, err2 := lib.Links(ctx)
	_, err3 := lib.Probe(ctx, "GPU-0")
	_, err4 := lib.Watch(ctx)
	for _, err := range []error{err1, err2, err3, err4} {
		if !errors.Is(err, want) {
			t.Errorf("error %v", err)
		}
	}
	if err := lib.Close(); err != nil {
		t.Error(err)
	}
}

func do(t *testing.T, r *Recorded, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if err := r.Do(line); err != nil {
			t.Fatal(err)
		}
	}
}

// One lost GPU costs the other seven nothing.
func TestALostGPU(t *testing.T) {
	r := NewRecorded(recording(t, "a100"))
	lost := recording(t, "a100").GPUs[3].UUID
	do(t, r, "lose 3")
	inv, err := r.Inventory(t.Context())
	if err != nil || len(inv.GPUs) != 7 || len(inv.Unreadable) != 1 || inv.Unreadable[0].UUID != lost {
		t.Errorf("%d GPUs, %v, %v", len(inv.GPUs), inv.Unreadable, err)
	}
	links, err := r.Links(t.Context())
	if err != nil || len(links) != 21 {
		t.Errorf("%d links, %v", len(links), err)
	}
	if _, err := r.Probe(t.Context(), lost); !errors.Is(err, ErrLost) {
		t.Errorf("probe: %v", err)
	}
	events, err := r.Watch(t.Context())
	if err != nil || !errors.Is(events.Unwatched()[lost], ErrLost) {
		t.Errorf("watch: %v, %v", events, err)
	}
	do(t, r, "restore 3")
	if inv, err = r.Inventory(t.Context()); err != nil || len(inv.GPUs) != 8 {
		t.Errorf("restored: %d GPUs, %v", len(inv.GPUs), err)
	}
}

func TestEventsArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inv := recording(t, "a100-mig")
		r := NewRecorded(inv)
		do(t, r, "deaf 1")
		events, err := r.Watch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		do(t, r, "xid 48 0", "xid 94 1", "xid 94 0 2 0", "xid 13 ?")
		for _, want := range []Event{
			{UUID: inv.GPUs[0].UUID, Xid: 48, GI: WholeGPU, CI: WholeGPU},
			{UUID: inv.GPUs[0].UUID, Xid: 94, GI: 2},
			{Xid: 13, GI: WholeGPU, CI: WholeGPU},
		} {
			if got, err := events.Next(t.Context()); err != nil || got != want {
				t.Errorf("event %+v, %v; want %+v", got, err, want)
			}
		}
		if !errors.Is(events.Unwatched()[inv.GPUs[1].UUID], ErrNotSupported) {
			t.Errorf("unwatched: %v", events.Unwatched())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := events.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no event: %v", err)
		}
		do(t, r, "break GPU driver gone")
		if _, err := events.Next(t.Context()); err == nil || err.Error() != "GPU driver gone" {
			t.Errorf("broken: %v", err)
		}
		if _, err := r.Watch(t.Context()); err == nil {
			t.Error("a broken library can be watched")
		}
		do(t, r, "mend", "slow 1s")
		begun := time.Now()
		if events, err = r.Watch(t.Context()); err != nil || time.Since(begun) != time.Second {
			t.Errorf("mended: %v after %v", err, time.Since(begun))
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := events.Next(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

func TestInstancesAppear(t *testing.T) {
	r := NewRecorded(recording(t, "a100"))
	do(t, r, "mig 2 3g.20gb 1g.5gb", "mig 2 1g.5gb")
	inv, err := r.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	served, err := gpu.Serve(inv.Node(), deviceconfig.Config{Flags: deviceconfig.Flags{MIGStrategy: "mixed"}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"nvidia.com/gpu": 7, "nvidia.com/mig-3g.20gb": 1, "nvidia.com/mig-1g.5gb": 2}
	if diff := cmp.Diff(want, map[string]int64(served.Resources)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	do(t, r, "unmig 2")
	if inv, _ = r.Inventory(t.Context()); inv.GPUs[2].MIG != MIGDisabled || len(inv.GPUs[2].Instances) > 0 {
		t.Errorf("instances left: %+v", inv.GPUs[2])
	}
}

func TestFaultsAreChecked(t *testing.T) {
	r := NewRecorded(recording(t, "t4"))
	for line, want := range map[string]string{
		"":               "an empty fault",
		"explode 0":      `fault "explode 0": no such fault`,
		"lose":           `fault "lose": which GPU?`,
		"lose 7":         `fault "lose 7": no GPU 7`,
		"slow soon":      `fault "slow soon": expected a duration such as 1s`,
		"xid 48":         `fault "xid 48": expected an Xid and a GPU, then perhaps GPU and compute instance`,
		"xid many 0":     `fault "xid many 0": "many" is no Xid`,
		"xid 48 0 a b":   `fault "xid 48 0 a b": "a", "b" are no instances`,
		"recovery 0 now": `fault "recovery 0 now": expected one of none, reset, reboot, drain`,
		"mig 0 large":    `fault "mig 0 large": "large" is no MIG profile`,
	} {
		if err := r.Do(line); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", line, err, want)
		}
	}
}
