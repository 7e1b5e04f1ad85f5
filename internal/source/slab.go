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

	// For a document of which nothing will be held.
	scratch *scratch
}

// A scratch is room for one document, which is used again for the next.
type scratch struct {
	slab
	nodes  [512]manifest.Node
	values [512]manifest.Field
	list   [128]*manifest.Node
}

// apart returns a slab for a document that will not be held.
func (s *slab) apart() *slab {
	if s.scratch == nil {
		s.scratch = &scratch{}
		s.scratch.empty()
	}
	return &s.scratch.slab
}

// empty takes the room back from the last document.
func (c *scratch) empty() {
	clear(c.nodes[:])
	c.someNodes, c.someFields, c.someItems = c.nodes[:], c.values[:], c.list[:]
}

const piece = 186 // nodes, which fill 16 KiB

// sized returns a slab that suits one document of so many bytes.
func sized(bytes int) *slab {
	n := bytes/16 + 8
	return &slab{someNodes: make([]manifest.Node, n), someFields: make([]manifest.Field, n), someItems: make([]*manifest.Node, n/4)}
}

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
