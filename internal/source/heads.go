package source

import (
	"slices"
	"strings"
	"sync"

	"github.com/kerfdev/kerf/api/manifest"
)

// Heads are what is kept of documents that can be read again from their text:
// who they are, and whether they still run. A tree takes some ten times the room
// of its text, and of a cluster's pods one at a time is needed whole.
type heads struct {
	mu    sync.Mutex
	again map[*manifest.Node]func() *manifest.Node
}

// cut returns the head of a Pod, whose whole tree again must give; any other
// document, and one that has something to be said of, stays as it is. Without
// heads everything does.
func (h *heads) cut(root *manifest.Node, again func() *manifest.Node) *manifest.Node {
	if h == nil || root.Get("kind").Str() != "Pod" || root.Get("apiVersion") == nil || root.Get("metadata") == nil || repeats(root) {
		return root
	}
	out := only(root, "apiVersion", "kind", "metadata", "status")
	for i := range out.Fields {
		switch f := &out.Fields[i]; f.Name {
		case "metadata":
			f.Value = without(f.Value, "managedFields")
		case "status":
			f.Value = only(f.Value, "phase", "reason")
		}
		out.Fields[i].Value = copied(out.Fields[i].Value)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.again == nil {
		h.again = map[*manifest.Node]func() *manifest.Node{}
	}
	h.again[out] = again
	return out
}

// room is where a document is made of its text: apart from others where it may
// be cut.
func (h *heads) room(s *slab, text string) *slab {
	if h == nil || !strings.Contains(text, "kind: Pod") {
		return s
	}
	return s.apart()
}

// cutFrom is cut for a document that was made in what room gave.
func (h *heads) cutFrom(s *slab, root *manifest.Node, again func() *manifest.Node) *manifest.Node {
	out := h.cut(root, again)
	switch {
	case s.scratch == nil:
	case out == root:
		s.scratch = nil // it is held
	default:
		s.scratch.empty()
	}
	return out
}

// only is a map with some of its fields, without one without others.
func only(n *manifest.Node, names ...string) *manifest.Node {
	return filtered(n, func(f manifest.Field) bool { return slices.Contains(names, f.Name) })
}

func without(n *manifest.Node, name string) *manifest.Node {
	return filtered(n, func(f manifest.Field) bool { return f.Name != name })
}

func filtered(n *manifest.Node, keep func(manifest.Field) bool) *manifest.Node {
	out := *n
	out.Fields = nil
	for _, f := range n.Fields {
		if keep(f) {
			out.Fields = append(out.Fields, f)
		}
	}
	return &out
}

// copied is a copy that holds nothing of the tree that n stands in.
func copied(n *manifest.Node) *manifest.Node {
	if n == nil {
		return nil
	}
	out := *n
	out.Fields = slices.Clone(n.Fields)
	for i := range out.Fields {
		out.Fields[i].Value = copied(out.Fields[i].Value)
	}
	out.Items = slices.Clone(n.Items)
	for i := range out.Items {
		out.Items[i] = copied(out.Items[i])
	}
	return &out
}

// of returns how to read the whole of what was cut, nil for what was not.
func (h *heads) of(root *manifest.Node) func() *manifest.Node {
	if h == nil {
		return nil
	}
	return h.again[root]
}
