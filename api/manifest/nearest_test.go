package manifest_test

import (
	"testing"

	"github.com/kerfdev/kerf/api/manifest"
)

func TestNearest(t *testing.T) {
	known := []string{"replicas", "resources", "rename", "name", "gpu", "cpu", "kind"}
	for name, c := range map[string]struct{ word, want string }{
		"a letter too few":                         {"replica", "replicas"},
		"two letters swapped":                      {"erplicas", "replicas"},
		"two edits in a long word":                 {"resorces2", "resources"},
		"two edits in a short word are too far":    {"kynt", ""},
		"one edit in a short word":                 {"knid", "kind"},
		"case alone":                               {"Replicas", "replicas"},
		"of equally near ones the first":           {"xpu", "gpu"},
		"a word of two letters is near to nothing": {"pu", ""},
		"a known word":                             {"name", ""},
		"nothing near":                             {"colour", ""},
		"an empty word":                            {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := manifest.Nearest(c.word, known); got != c.want {
				t.Errorf("Nearest(%q) = %q, want %q", c.word, got, c.want)
			}
		})
	}
}
