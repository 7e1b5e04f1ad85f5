package guard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestHarmless follows what the toolkit was seen to do with each value, but for
// lists that name devices beside void or none, which the guard refuses.
func TestHarmless(t *testing.T) {
	tests := map[string]struct {
		value string
		want  bool
	}{
		"void":                       {"void", true},
		"none":                       {"none", true},
		"empty":                      {"", true},
		"blanks":                     {"  ", true},
		"blanks around void":         {" void ", true},
		"commas alone":               {",,", true},
		"none and void":              {"none, void", true},
		"all":                        {"all", false},
		"blanks around all":          {" all ", false},
		"an index":                   {"0", false},
		"an index and void":          {"0,void", false},
		"none and all":               {"none,all", false},
		"capital letters":            {"NONE", false},
		"a CDI name":                 {"nvidia.com/gpu=0", false},
		"a line break is no comma":   {"void\nall", false},
		"a tab is a blank":           {"\tvoid", true},
		"no-break spaces are blanks": {"\u00a0void", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Harmless(tc.value); got != tc.want {
				t.Errorf("Harmless(%q) = %v, want %v", tc.value, got, tc.want)
			}
		})
	}
}

// TestEnvironment holds the kubelet's order and its expansion.
func TestEnvironment(t *testing.T) {
	facts := &Facts{
		ConfigMaps: map[string]map[string]string{"a": {"X": "from a", "Y": "y of a"}, "b": {"X": "from b"}},
		Secrets:    map[string]map[string]string{"a": {"X": "from the secret"}},
	}
	a, b := EnvFrom{Kind: "ConfigMap", Name: "a"}, EnvFrom{Kind: "ConfigMap", Name: "b"}
	type value struct {
		Text  string
		Known bool
	}
	tests := map[string]struct {
		in   Container
		want map[string]value
	}{
		"the last of a name counts": {
			Container{Env: []Env{{Name: "X", Value: "1"}, {Name: "X", Value: "2"}}}, map[string]value{"X": {"2", true}},
		},
		"envFrom in its order": {
			Container{EnvFrom: []EnvFrom{a, b}}, map[string]value{"X": {"from b", true}, "Y": {"y of a", true}},
		},
		"env after envFrom": {
			Container{EnvFrom: []EnvFrom{b}, Env: []Env{{Name: "X", Value: "own"}}}, map[string]value{"X": {"own", true}},
		},
		"a prefix": {
			Container{EnvFrom: []EnvFrom{{Prefix: "P_", Kind: "Secret", Name: "a"}}}, map[string]value{"P_X": {"from the secret", true}},
		},
		"what is set before can be named": {
			Container{EnvFrom: []EnvFrom{b}, Env: []Env{{Name: "Z", Value: "<$(X)>"}}}, map[string]value{"X": {"from b", true}, "Z": {"<from b>", true}},
		},
		"what is set after cannot": {
			Container{Env: []Env{{Name: "Z", Value: "$(X)"}, {Name: "X", Value: "1"}}}, map[string]value{"Z": {"$(X)", true}, "X": {"1", true}},
		},
		"not known from a field, nor what names it": {
			Container{Env: []Env{{Name: "X", From: "fieldRef"}, {Name: "Z", Value: "$(X)"}}}, map[string]value{"X": {"", false}, "Z": {"", false}},
		},
		"a name that a ConfigMap may bring": {
			Container{EnvFrom: []EnvFrom{{Kind: "ConfigMap", Name: "elsewhere"}}, Env: []Env{{Name: "Z", Value: "$(X)"}}}, map[string]value{"Z": {"$(X)", false}},
		},
		"the address of a Service": {
			Container{Env: []Env{{Name: "Z", Value: "$(DB_SERVICE_HOST)"}}}, map[string]value{"Z": {"$(DB_SERVICE_HOST)", false}},
		},
		"two dollars are one": {
			Container{Env: []Env{{Name: "X", Value: "1"}, {Name: "Z", Value: "$$(X)"}}}, map[string]value{"X": {"1", true}, "Z": {"$(X)", true}},
		},
		"a dollar by itself, and an open end": {
			Container{Env: []Env{{Name: "Z", Value: "5$ $x $("}}}, map[string]value{"Z": {"5$ $x $(", true}},
		},
		"an end that is behind the next beginning": {
			Container{Env: []Env{{Name: "X", Value: "1"}, {Name: "Z", Value: ")$(X)$)$(X)"}}}, map[string]value{"X": {"1", true}, "Z": {")1$)1", true}},
		},
		"a dollar at the end": {
			Container{Env: []Env{{Name: "Z", Value: "a$"}}}, map[string]value{"Z": {"a$", true}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			vars, _ := environment(&tc.in, facts)
			got := map[string]value{}
			for name, s := range vars {
				got[name] = value{s.text, s.known}
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("variables (-want +got):\n%s", d)
			}
		})
	}
}

// What grows without end is not worked out: what is made of it is not known, and
// the rules take it for the worst.
func TestVariablesThatDouble(t *testing.T) {
	c := Container{Env: []Env{{Name: "A0", Value: "0123456789"}}}
	for i := range 60 {
		c.Env = append(c.Env, Env{Name: fmt.Sprintf("A%d", i+1), Value: fmt.Sprintf("$(A%d)$(A%d)", i, i)})
	}
	c.Env = append(c.Env, Env{Name: VisibleDevices, Value: "$(A60)"}, Env{Name: "LATER", Value: "$(A1)!"})
	vars, _ := environment(&c, &Facts{})
	if s := vars["A8"]; !s.known || len(s.text) != 2560 {
		t.Errorf("a value of %d bytes is known: %v", len(s.text), s.known)
	}
	if s := vars[VisibleDevices]; s.known || len(s.text) > longestValue {
		t.Errorf("a value of 2^60 times ten bytes is known: %v, as %d bytes", s.known, len(s.text))
	}
	if s := vars["LATER"]; !s.known || s.text != "01234567890123456789!" {
		t.Errorf("what has nothing to do with it is %q, known: %v", s.text, s.known)
	}
	found := Refused(Review(&Pod{Kind: "Pod", Containers: []Container{c}}, nil, nil))
	if len(found) != 1 || found[0].Rule != "env-visible-devices-from" {
		t.Errorf("refused for %+v", found)
	}

	long := Container{Env: []Env{{Name: "A", Value: strings.Repeat("x", longestValue)}}}
	for i := range 1000 {
		long.Env = append(long.Env, Env{Name: fmt.Sprintf("B%d", i), Value: "$(A)"})
	}
	vars, _ = environment(&long, &Facts{})
	size := 0
	for _, s := range vars {
		size += len(s.text)
	}
	if size > 2*roomOfAContainer {
		t.Errorf("the variables take %d bytes", size)
	}
}

func TestQuantity(t *testing.T) {
	tests := map[string]float64{"1": 1, "1000m": 1, "1k": 1000, "1Gi": 1 << 30, "0": 0, "0.5": 0.5, "-1": -1, "+2": 2, ".5": 0.5, "1e3": 1000}
	for text, want := range tests {
		if got := quantity(text); got != want {
			t.Errorf("quantity(%q) = %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"", "one", "1 k", "k", "0x10Q"} {
		if got := quantity(text); got == got {
			t.Errorf("quantity(%q) = %v, want no number", text, got)
		}
	}
}
