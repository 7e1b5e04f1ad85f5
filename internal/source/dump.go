package source

import (
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// A dump is one document as "kubectl get -o yaml" prints it: a map whose field
// items is a long list. Its items are read by themselves, on all cores, and one
// that is odd does not send the others to the library.
type dump struct {
	frame string // the document without its items
	head  int    // lines of the frame before the items
	items []chunk
	lines int // of all items
}

const longList = 128 // items from which it pays

// split takes a dump apart; ok says whether text is one.
func split(text string) (u dump, ok bool) {
	at := strings.Index(text, "\nitems:\n- ")
	if at < 0 || strings.Count(text, "\n- ") < longList {
		return u, false
	}
	at += len("\nitems:\n")
	u.head = strings.Count(text[:at], "\n")
	start, line := at, u.head
	from, skip := at, line
	for first := true; start < len(text); first = false {
		next := len(text)
		if i := strings.IndexByte(text[start:], '\n'); i >= 0 {
			next = start + i + 1
		}
		if c := text[start]; c != ' ' && c != '\n' && c != '#' && !first {
			u.items = append(u.items, chunk{text[from:start], skip})
			if from, skip = start, line; !strings.HasPrefix(text[start:], "- ") {
				break
			}
		}
		start, line = next, line+1
	}
	if start >= len(text) {
		u.items = append(u.items, chunk{text[from:], skip})
	}
	u.frame, u.lines = text[:at]+text[start:], line-u.head
	return u, true
}

// read reads the frame and the items; ok is false when they are better read
// together.
func (u dump) read(lineOf func(int) int, h *heads) (root *manifest.Node, notes []model.Note, ok bool) {
	root, said, ok := plainly(u.frame, func(line int) int {
		if line > u.head {
			line += u.lines
		}
		return lineOf(line)
	}, &slab{})
	if !ok || len(said.words) > 0 {
		return nil, nil, false
	}
	at := slices.IndexFunc(root.Fields, func(f manifest.Field) bool { return f.Name == "items" })
	if at < 0 || root.Fields[at].Value.Kind != manifest.Null || repeats(root) {
		return nil, nil, false
	}
	list := &manifest.Node{Kind: manifest.List, Line: lineOf(u.head + 1), Items: make([]*manifest.Node, len(u.items))}
	remarked := make([]remarks, len(u.items))
	each(len(u.items), func() func(int) {
		var s slab
		return func(i int) {
			at := func(line int) int { return lineOf(line + u.items[i].skip) }
			item := u.items[i]
			list.Items[i], remarked[i] = item.item(at, h.room(&s, item.text))
			list.Items[i] = h.cutFrom(&s, list.Items[i], func() *manifest.Node { whole, _ := item.item(at, sized(len(item.text))); return whole })
		}
	})
	if slices.Contains(list.Items, nil) {
		return nil, nil, false
	}
	for _, r := range remarked {
		said.add(r)
	}
	root.Fields[at].Value = list
	return root, said.notes(), true
}

// item reads a list of one item; it gives nil where the rest of the list may
// matter to it, and where there is something to be said of it.
func (c chunk) item(lineOf func(int) int, s *slab) (*manifest.Node, remarks) {
	if root, r, ok := plainly(c.text, lineOf, s); ok {
		return single(root), r
	}
	if strings.ContainsAny(c.text, "&*") {
		return nil, remarks{} // anchors hold for the whole document
	}
	roots, notes := c.library(lineOf)
	if len(roots) != 1 || len(notes) > 0 {
		return nil, remarks{}
	}
	return single(roots[0]), remarks{}
}

func single(list *manifest.Node) *manifest.Node {
	if list.Kind != manifest.List || len(list.Items) != 1 {
		return nil
	}
	return list.Items[0]
}

// add takes in what is said of a later part.
func (r *remarks) add(later remarks) {
	if r.word == "" {
		r.word = later.word
	}
	r.words = append(r.words, later.words...)
}
