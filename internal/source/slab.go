package source

import "github.com/kerfdev/kerf/api/manifest"

// A slab is room for the values of many documents, taken from the heap in
// large pieces. Nobody but one goroutine may use it at a time.
type slab struct {
	someNodes  []manifest.Node
	someFields []manifest.Field
	someItems  []*manifest.Node

	// Values under construction, innermost last.
	fields []manifest.Field
	items  []*manifest.Node
}

const piece = 186 // nodes, which fill 16 KiB

// node returns one that is zero.
func (s *slab) node() *manifest.Node {
	if len(s.someNodes) == 0 {
		s.someNodes = make([]manifest.Node, piece)
	}
	n := &s.someNodes[0]
	s.someNodes = s.someNodes[1:]
	return n
}

// cut copies values into room; of none it makes nil.
func cut[T any](room *[]T, values []T) []T {
	n := len(values)
	if n == 0 {
		return nil
	}
	if n > len(*room) {
		*room = make([]T, max(n, 2*piece))
	}
	out := (*room)[:n:n]
	*room = (*room)[n:]
	copy(out, values)
	return out
}
