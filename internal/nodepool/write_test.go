package nodepool

import (
	"bytes"
	"testing"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/source"
	"pgregory.net/rapid"
)

// reread writes a tree and reads it back, as YAML 1.1.
func reread(t interface{ Fatalf(string, ...any) }, n *manifest.Node) string {
	var b bytes.Buffer
	if err := writeYAML(&b, n); err != nil {
		t.Fatalf("%v", err)
	}
	docs, notes := source.Parse(source.File{Name: "out.yaml", Data: b.Bytes()})
	if len(docs) != 1 {
		t.Fatalf("%d documents, %v, in\n%s", len(docs), notes, b.Bytes())
	}
	return string(docs[0].Root.JSON())
}

func wrap(s string) *manifest.Node {
	return mapping(1, entry("apiVersion", text(1, "v1")), entry("kind", text(1, "Thing")),
		entry("one", text(1, s)), entry("list", list(1, text(1, s), text(1, s))), entry("map", mapping(1, manifest.Field{Name: s, Value: text(1, s)})))
}

func TestStringsComeBackAsWritten(t *testing.T) {
	for _, s := range []string{
		"", "y", "NO", "on", "Off", "true", "null", "~", "1", "1.0", "0x1F", "0777", "0o17", "1_000", "1:20", "190:20:30.15", ".inf", "2001-01-01", "<<", "=",
		"a: b", "a #b", "- a", "? a", "!a", "&a", "*", "%a", "@a", "`a", "{a", "[a", "'a", "\"a", "|", ">", " a", "a ", "a\nb", "a\n\nb\n", "\n a\n", "a\tb", "${local.x}", "é", "a\u2028b", "-", "--- a", "1e3", "+1", "a:",
	} {
		if got, want := reread(t, wrap(s)), string(wrap(s).JSON()); got != want {
			t.Errorf("%q comes back as %s", s, got)
		}
	}
}

func TestAnyStringComesBackAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[ -~\n]{0,12}`).Draw(t, "s")
		if got, want := reread(t, wrap(s)), string(wrap(s).JSON()); got != want {
			t.Fatalf("%q comes back as %s", s, got)
		}
	})
}
