package source

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/api/manifest"
)

const podItem = `
  apiVersion: v1
  kind: Pod
  metadata: {name: NAME, namespace: team, labels: {app: a}}
  spec:
    containers:
    - name: main
      image: "registry.example.com/a:v1"
`

// A document whose head alone is held is read again just as it was, on the
// same lines, however the file is written.
func TestHeadsGiveTheWholeAgain(t *testing.T) {
	pod := func(name string) string { return strings.ReplaceAll(podItem, "NAME", name) }
	item := func(name string) string { return "-" + strings.TrimPrefix(pod(name), "\n ") }
	many := strings.Builder{}
	for range longList + 1 {
		many.WriteString(item("p"))
	}
	cases := map[string]struct {
		name, text string
		cut        int
	}{
		"documents":                         {"a.yaml", "# two\n---\n" + strings.ReplaceAll(pod("a"), "\n  ", "\n") + "---\n" + strings.ReplaceAll(pod("b"), "\n  ", "\n"), 2},
		"a long list, as kubectl prints it": {"a.yaml", "apiVersion: v1\nitems:\n" + many.String() + "kind: List\n", longList + 1},
		"a list of JSON":                    {"a.json", "{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [\n  {\"apiVersion\": \"v1\", \"kind\": \"Pod\",\n \"metadata\": {\"name\": \"a\"}, \"spec\": {\"priority\": 1.0}}, {\"kind\": \"Node\", \"apiVersion\": \"v1\"}]}", 1},
		"JSON values one after the other":   {"a.json", "{\"apiVersion\": \"v1\", \"kind\": \"Pod\",\n \"metadata\": {\"name\": \"a\"}}\n{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"b\"}}", 2},
		"one of many values and one after it": {
			"a.yaml",
			"---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  a:\n" + strings.Repeat("  - {b: [c, d]}\n", 200) + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: b, labels: {e: f}}\nspec: {a: " + "[" + strings.Repeat("x, ", 90) + "y]}\n",
			2,
		},
		"with a repeated key it is held":        {"a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, name: b}\n", 0},
		"nothing but pods is read a third time": {"a.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			files := []File{{Name: c.name, Data: []byte(c.text)}}
			want, notes := ParseAll(files)
			got, same := ParseHeads(files)
			if diff := cmp.Diff(notes, same); diff != "" {
				t.Errorf("notes (-whole +heads)\n%s", diff)
			}
			cut := 0
			for i := range got {
				if got[i].Again != nil {
					cut++
					if diff := cmp.Diff(want[i].Root.Get("metadata"), got[i].Root.Get("metadata")); diff != "" {
						t.Errorf("metadata (-whole +head)\n%s", diff)
					}
					if got[i].Root.Get("spec") != nil || got[i].Root.At("metadata", "name") == nil {
						t.Errorf("%s: the root holds more than a head", got[i].Title())
					}
				}
				got[i] = manifest.Document{
					File: got[i].File, APIVersion: got[i].APIVersion, Kind: got[i].Kind, Namespace: got[i].Namespace, Name: got[i].Name, Root: got[i].Tree(),
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-whole +heads)\n%s", diff)
			}
			if cut != c.cut {
				t.Errorf("%d documents are heads, want %d", cut, c.cut)
			}
		})
	}
}
