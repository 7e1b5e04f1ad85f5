package source

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// FuzzMeaning compares what one YAML document means here with what it means to
// sigs.k8s.io/yaml, through which Kubernetes reads it. Tags are left out: the
// parser here does not tell the tag "!" from none.
func FuzzMeaning(f *testing.F) {
	for _, seed := range []string{
		"a: [yes, 0o7, 0777, 1_0, .5, 1e3, ~]", "{1: a, 1.5: b, true: c, null: d}", "a: &x {b: 1}\nc: {<<: *x, d: 2}\n",
		"a: |\n  x\n\n  y\nb: >-\n  x\n  y\n", "- 2026-01-02\n- 10:30\n- -0\n- +1\n- 0x1F\n- 1.\n", "a: 'it''s'\nb: \"\\u00e9\\n\"\n", pod,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		roots, notes := parseYAML(text, func(line int) int { return line }, nil)
		for _, n := range notes {
			if n.Code != "yaml-boolean" {
				return
			}
		}
		if strings.Contains(text, "!") || len(roots) != 1 || len(chunks(text)) != 1 || len(roots[0].Duplicates()) > 0 {
			return
		}
		theirs, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return
		}
		var want, got any
		if err := json.Unmarshal(theirs, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(roots[0].JSON(), &got); err != nil {
			t.Fatalf("no JSON: %v: %s", err, roots[0].JSON())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("meaning (-kubernetes +here):\n%s", diff)
		}
	})
}
