package workload

import (
	"reflect"
	"slices"
	"strings"
)

// meant guesses which field was meant by one that does not exist: a near
// spelling in the same struct, or the place in the object where a field of that
// name belongs. It returns a field path, or "" when nothing is near.
func (d *decoder) meant(name string, t reflect.Type, p *plan) string {
	if t.Name() == "ResourceRequirements" && (strings.Contains(name, "/") || name == "cpu" || name == "memory") {
		return "limits[" + name + "]"
	}
	if near := nearest(name, p.names); near != "" {
		return near
	}
	return d.elsewhere(name)
}

// nearest returns the name with the smallest edit distance, when that is small
// for the length: a far guess helps nobody.
func nearest(name string, names []string) string {
	best, at := 3, ""
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return n
		}
		if dist := distance(name, n); dist < best && 3*dist <= len(name) {
			best, at = dist, n
		}
	}
	return at
}

// distance is the number of letters to insert, drop, change or swap with a
// neighbour that make a into b.
func distance(a, b string) int {
	if diff := len(a) - len(b); diff > 2 || diff < -2 {
		return 3
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row := rows[0], rows[1], rows[2]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		rows = [3][]int{last, row, before}
	}
	return rows[1][len(b)]
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
