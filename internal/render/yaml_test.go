package render

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

func TestYAMLKeepsTheOrder(t *testing.T) {
	got, err := YAML([]byte(`{"version":"v1","b":{"z":1,"a":[{"x":"no","y":[]},{}],"e":{}},"list":[1.5,null,"a b",[true]],"c":"plain"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `version: v1
b:
  z: 1
  a:
    - x: "no"
      "y": []
    - {}
  e: {}
list:
  - 1.5
  - null
  - "a b"
  -
    - true
c: plain
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

// values draws JSON documents a few levels deep.
func values(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.SampledFrom([]string{"y", "NO", "1", "1.0", "~", "- a", "a: b", "#x", "2025-07-01", "0x1f", "", " ", "@a", "a/b", "1e3"}), func(s string) any { return s }),
		rapid.Map(rapid.Float64Range(-1e6, 1e6), func(f float64) any { return f }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Just[any](nil),
	)
	if depth == 0 {
		return scalar
	}
	return rapid.OneOf(scalar,
		rapid.Map(rapid.SliceOfN(values(depth-1), 0, 4), func(l []any) any { return append([]any{}, l...) }),
		rapid.Map(rapid.MapOfN(rapid.String(), values(depth-1), 0, 4), func(m map[string]any) any { return m }))
}

func TestYAMLSaysTheSameAsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc, err := json.Marshal(map[string]any{"root": values(3).Draw(t, "value")})
		if err != nil {
			t.Skip("not JSON")
		}
		text, err := YAML(doc)
		if err != nil {
			t.Fatal(err)
		}
		back, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		var want, got any
		if json.Unmarshal(doc, &want) != nil || json.Unmarshal(back, &got) != nil {
			t.Fatal("not JSON")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s\n%s", diff, text)
		}
	})
}
