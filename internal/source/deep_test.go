package source

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTerraformThatWouldExhaustTheStackIsRefused(t *testing.T) {
	for _, piece := range []string{"!", "- ", "a ? a : ", "a[", "(", "a + ", "{a = ", "\"${", "f(", "a ? [b, c] : ", "!(b) + ", "a ? {\n} : "} {
		text := "locals {\n  a = " + strings.Repeat(piece, 90_000/len(piece)) + "true\n}\n"
		_, notes := Parse(File{"a.tf", []byte(text)})
		want := []string{"error nesting a.tf:0 an expression here is nested more than 500 deep or has more than 5,000 operators, so the file was not read"}
		for i := range notes {
			notes[i].Place.Line = 0 // where the bound is passed is of no matter
		}
		if diff := cmp.Diff(want, said(notes)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", piece, diff)
		}
		Parse(File{"a.tf.json", []byte(`{"resource":{"kubectl_manifest":{"x":{"yaml_body":"${` + strings.Repeat(strings.ReplaceAll(piece, `"`, ``), 10_000) + `a}"}}}}`)})
	}
}

func TestLongTerraformIsNoDeepTerraform(t *testing.T) {
	text := "resource \"helm_release\" \"x\" {\n  chart = \"nvidia-device-plugin\"\n  values = [<<-EOT\n" + strings.Repeat("    - a?b:c-d!e+f\n", 6_000) + "  EOT\n  ]\n}\n" +
		"locals {\n" + strings.Repeat("  a = { b = 1 - 1, c = !true }\n", 1) + "}\n"
	docs, notes := Parse(File{"a.tf", []byte(text)})
	if len(docs) != 1 {
		t.Errorf("%d documents; notes %q", len(docs), said(notes))
	}
}
