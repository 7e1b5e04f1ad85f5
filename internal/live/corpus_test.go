package live

import (
	"cmp"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/source"
)

// What is cut away changes no finding: every claim of guard's corpus is found
// fault with alike when it is read from a cluster and when it is read from a
// file, but for Secrets, which are never read.
func TestTheGuardFindsInAClusterWhatItFindsInFiles(t *testing.T) {
	files, err := source.Read([]string{"../guard/testdata/corpus"}, nil)
	if err != nil || len(files) < 150 {
		t.Fatalf("%d claims, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file.Name), func(t *testing.T) {
			docs, _ := source.Parse(file)
			docs = slices.DeleteFunc(docs, func(d manifest.Document) bool { return d.Kind == "Secret" })
			r := &reading{configs: configMaps{}}
			var kept []manifest.Document
			for _, d := range docs {
				var object map[string]any
				if err := json.Unmarshal(d.Root.JSON(), &object); err != nil {
					t.Fatal(err)
				}
				object = Keep(object)
				if r.keeps(kind{name: d.Kind}, object) {
					kept = append(kept, Document(object))
				}
			}
			if d := gocmp.Diff(findings(docs), findings(kept)); d != "" {
				t.Errorf("findings (-files +cluster):\n%s", d)
			}
		})
	}
}

// findings are all that is found, without lines and files.
func findings(docs []manifest.Document) []guard.Finding {
	var out []guard.Finding
	for _, f := range guard.Scan(guard.Read(docs), guard.DefaultExemptions()).Findings {
		f.Place.File, f.Place.Line = "", 0
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b guard.Finding) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Place.Object, b.Place.Object), cmp.Compare(a.Place.Field, b.Place.Field), cmp.Compare(a.Text, b.Text))
	})
	return out
}

// Variables that say what a container is shown keep their values, with those of
// which they are made; others may be secret.
func TestValuesOfVariables(t *testing.T) {
	entry := func(name, value string) any { return map[string]any{"name": name, "value": value} }
	env := []any{
		entry("PASSWORD", "hunter2"), entry("ALL", "all"), entry("WHICH", "$(ALL)"), entry("NVIDIA_VISIBLE_DEVICES", "$(WHICH),0"),
		entry("CUDA_VERSION", "12.4"), entry("LD_PRELOAD", "/x.so"), entry("DOCKER_RESOURCE_GPU", "all"), entry("ALL", "later"),
	}
	hide(env)
	var got []string
	for _, e := range env {
		got = append(got, e.(map[string]any)["value"].(string))
	}
	want := []string{"", "all", "$(ALL)", "$(WHICH),0", "12.4", "/x.so", "all", ""}
	if d := gocmp.Diff(want, got); d != "" {
		t.Errorf("values (-want +got):\n%s", d)
	}
}
