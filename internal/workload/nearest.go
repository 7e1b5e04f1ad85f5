package workload

import (
	"reflect"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
)

// meant guesses which field was meant by one that does not exist: a near
// spelling in the same struct, or the place in the object where a field of that
// name belongs. It returns a field path, or "" when nothing is near.
func (d *decoder) meant(name string, t reflect.Type, p *plan) string {
	if t.Name() == "ResourceRequirements" && (strings.Contains(name, "/") || name == "cpu" || name == "memory") {
		return "limits[" + name + "]"
	}
	if near := manifest.Nearest(name, p.names); near != "" {
		return near
	}
	return d.elsewhere(name)
}

// elsewhere finds where in the object a field of this name belongs: the nearest
// place below the root, breadth first in the order of declaration.
func (d *decoder) elsewhere(name string) string {
	type place struct {
		t    reflect.Type
		path []string
	}
	seen := map[reflect.Type]bool{}
	queue := []place{{t: d.root}}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		t, suffix := element(at.t)
		if suffix != "" && len(at.path) > 0 {
			at.path[len(at.path)-1] += suffix
		}
		if t.Kind() != reflect.Struct || seen[t] || len(at.path) > 4 {
			continue
		}
		seen[t] = true
		p := d.planOf(t)
		if i, ok := p.fields[name]; ok && len(at.path) > 0 {
			return strings.Join(append(slices.Clone(at.path), p.names[i]), ".")
		}
		for i, f := range p.found {
			queue = append(queue, place{f.Type, append(slices.Clone(at.path), p.names[i])})
		}
	}
	return ""
}

// element strips pointers and lists off a type.
func element(t reflect.Type) (reflect.Type, string) {
	suffix := ""
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			suffix = "[]"
		}
		t = t.Elem()
	}
	return t, suffix
}
