package gpu

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// A row is one line of testdata/sharing.json, the table that says what GPUs
// give under a config. Absent labels and devices are not compared; a label
// given as "" must not be set.
type row struct {
	Name      string
	From      string
	Recording string // of the plugin with this config, "" for none
	GPUs      []struct {
		Manufacturer string
		Model        string
		MemoryMiB    int64
		Count        int64
		Fraction     float64
	}
	Config     any
	MIG        []any
	Resources  model.Resources
	Devices    []model.Resources
	MaxRequest map[string]int64
	Kind       model.SharingKind
	Labels     map[string]string
	Error      string
}

func table(t *testing.T) []row {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "sharing.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// node makes a manifest of decoded JSON.
func node(v any) *manifest.Node {
	n := &manifest.Node{Line: 1}
	switch v := v.(type) {
	case bool:
		n.Kind, n.Text = manifest.Bool, fmt.Sprint(v)
	case float64:
		n.Kind, n.Text = manifest.Number, fmt.Sprint(v)
	case string:
		n.Kind, n.Text = manifest.String, v
	case []any:
		n.Kind = manifest.List
		for _, item := range v {
			n.Items = append(n.Items, node(item))
		}
	case map[string]any:
		n.Kind = manifest.Map
		for _, k := range known(v) {
			n.Fields = append(n.Fields, manifest.Field{Name: k, Line: 1, Value: node(v[k])})
		}
	}
	return n
}

func (r row) config(t *testing.T) (deviceconfig.Config, deviceconfig.MIGConfig) {
	t.Helper()
	cfg, problems := deviceconfig.Decode(node(r.Config))
	if r.MIG == nil {
		return cfg, nil
	}
	layouts, more := deviceconfig.DecodeMIG(node(map[string]any{"version": "v1", "mig-configs": map[string]any{"x": r.MIG}}))
	if slices.ContainsFunc(append(problems, more...), func(p deviceconfig.Problem) bool { return !p.Warning && !strings.Contains(p.Text, "mps") }) {
		t.Fatalf("bad config in the table: %v %v", problems, more)
	}
	return cfg, layouts["x"]
}

func (r row) gpus() []model.GPU {
	var out []model.GPU
	for _, g := range r.GPUs {
		if g.Manufacturer == "" {
			g.Manufacturer = "nvidia"
		}
		out = append(out, model.GPU{Manufacturer: g.Manufacturer, Model: g.Model, MemoryMiB: g.MemoryMiB, Count: g.Count, Fraction: g.Fraction})
	}
	return out
}

func TestAdvertise(t *testing.T) {
	for _, r := range table(t) {
		t.Run(r.Name, func(t *testing.T) {
			cfg, layout := r.config(t)
			got, err := Advertise(r.gpus(), cfg, layout)
			if r.Error != "" || err != nil {
				if err == nil || err.Error() != r.Error {
					t.Fatalf("error %v, want %q", err, r.Error)
				}
				return
			}
			empty := cmpopts.EquateEmpty()
			if diff := cmp.Diff(r.Resources, got.Resources, empty); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(r.MaxRequest, got.MaxRequest, empty); diff != "" {
				t.Errorf("largest request (-want +got):\n%s", diff)
			}
			if got.Kind != r.Kind {
				t.Errorf("kind %q, want %q", got.Kind, r.Kind)
			}
			var devices []model.Resources
			sum := model.Resources{}
			for _, d := range got.Devices {
				devices = append(devices, d.Resources)
				sum = sum.Plus(d.Resources, 1)
			}
			if diff := cmp.Diff(r.Devices, devices); r.Devices != nil && diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(got.Resources, sum, empty); diff != "" {
				t.Errorf("resources are not the sum of the devices (-resources +sum):\n%s", diff)
			}
			for k, want := range r.Labels {
				if v, set := got.Labels["nvidia.com/"+k]; v != want || set != (want != "") {
					t.Errorf("label %s = %q, want %q", k, v, want)
				}
			}
		})
	}
}

// Every label must be one that the API server takes.
func TestAdvertiseLabelsAreValid(t *testing.T) {
	for _, p := range products {
		memory := max(p.memory, p.fromMiB)
		gpus := []model.GPU{{Manufacturer: "nvidia", Model: p.model, MemoryMiB: memory, Count: 1}}
		cfg := deviceconfig.Config{TimeSlicing: &deviceconfig.Replicated{Resources: []deviceconfig.Resource{{Name: "nvidia.com/gpu", Replicas: 4}}}}
		ad, err := Advertise(gpus, cfg, nil)
		if err != nil {
			t.Fatalf("%s: %v", p.model, err)
		}
		for k, v := range ad.Labels {
			if len(v) > 63 || strings.ContainsAny(v, " ()/") || v == "" {
				t.Errorf("%s: label %s has the value %q", p.model, k, v)
			}
		}
		if p.mig != "" && geometries[p.mig].slices == 0 {
			t.Errorf("%s: no geometry %q", p.model, p.mig)
		}
	}
}

func TestAdvertiseLeavesItsInputAlone(t *testing.T) {
	for _, r := range table(t) {
		cfg, layout := r.config(t)
		gpus := r.gpus()
		before := fmt.Sprintf("%v %v %v", gpus, cfg, layout)
		first, err := Advertise(gpus, cfg, layout)
		if after := fmt.Sprintf("%v %v %v", gpus, cfg, layout); before != after {
			t.Errorf("%s: the input changed from %s to %s", r.Name, before, after)
		}
		again, err2 := Advertise(gpus, cfg, layout)
		if diff := cmp.Diff(first, again); diff != "" || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Errorf("%s: two runs differ: %v, %v\n%s", r.Name, err, err2, diff)
		}
	}
}

func TestAdvertiseRefusesAbsurdCounts(t *testing.T) {
	_, err := Advertise([]model.GPU{{Manufacturer: "nvidia", Model: "t4", Count: 1 << 60}}, deviceconfig.Config{}, nil)
	if err == nil {
		t.Fatal("no error for 2^60 GPUs")
	}
	ad, err := Advertise([]model.GPU{{Manufacturer: "nvidia", Model: "t4", Count: -3}}, deviceconfig.Config{}, nil)
	if err != nil || len(ad.Devices) > 0 {
		t.Fatalf("-3 GPUs give %v, %v", ad, err)
	}
}

// What the real plugin and the real feature discovery did on two mock GPUs.
func TestAdvertiseAgreesWithRecordings(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "golden")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no recordings in " + dir)
	}
	for _, r := range table(t) {
		if r.Recording == "" {
			continue
		}
		cfg, layout := r.config(t)
		ad, err := Advertise(r.gpus(), cfg, layout)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(recordedResources(t, filepath.Join(dir, r.Recording+".txt")), ad.Resources); diff != "" {
			t.Errorf("%s (-recorded +got):\n%s", r.Recording, diff)
		}
		data, err := os.ReadFile(filepath.Join(dir, "gfd-"+r.Recording+".txt"))
		if err != nil {
			continue // labels were recorded for some configs only
		}
		for line := range strings.Lines(string(data)) {
			key, want, _ := strings.Cut(strings.TrimSpace(line), "=")
			got, predicted := ad.Labels[key]
			if want = strings.TrimPrefix(want, "Mock-"); predicted && got != want {
				t.Errorf("%s: label %s is %s, recorded %s", r.Recording, key, got, want)
			}
		}
	}
}

// recordedResources reads the first list that the plugin sent for each resource.
func recordedResources(t *testing.T, file string) model.Resources {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := model.Resources{}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "LISTANDWATCH" {
			continue
		}
		var n int64
		if _, err := fmt.Sscanf(f[2], "n=%d", &n); err != nil {
			t.Fatalf("%s: %q: %v", file, line, err)
		}
		out[f[1]] = n
	}
	return out
}
