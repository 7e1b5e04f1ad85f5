package source

import (
	"strings"
	"unicode/utf8"

	"github.com/kerfdev/kerf/api/manifest"
)

// A direct reader reads the YAML that kubectl and nearly everybody writes:
// block maps and lists, texts in quotes or without, literal texts, and lists
// and maps in brackets on one line. It is some six times as fast as the library
// and allocates a seventh as much, which is what makes a cluster's worth of
// pods readable in about a second.
//
// It reads a document exactly as the library does, or not at all: whatever is
// out of the ordinary, mistakes above all, is odd, and the library has the word.
// FuzzDirect holds the two against each other.
type direct struct {
	text   string
	lineOf func(int) int
	at     int // offset of what comes next
	line   int // its line, from 1
	start  int // offset of that line
	odd    bool
	remarks
	*slab
}

const deepest = 100 // nesting that is still ordinary

// plainly reads text as one document; ok says whether it is ordinary enough.
func plainly(text string, lineOf func(int) int, s *slab) (root *manifest.Node, r remarks, ok bool) {
	d := &direct{text: text, lineOf: lineOf, line: 1, slab: s}
	s.fields, s.items = s.fields[:0], s.items[:0]
	if !ordinary(text) || d.next() != 0 {
		return nil, r, false
	}
	root = d.nested(0, 0)
	if d.odd || d.next() >= 0 {
		return nil, r, false
	}
	return root, d.remarks, true
}

// ordinary reports whether text has only characters that are no matter to YAML.
func ordinary(text string) bool {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(text[i:])
			if r < 0xa0 || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r == utf8.RuneError || r == 0xfffe || r == 0xffff {
				return false
			}
			i += size - 1
		case c < ' ' && c != '\n' || c == 0x7f:
			return false
		}
	}
	return true
}

func (d *direct) fail() *manifest.Node {
	d.odd = true
	return nil
}

// new makes a value that stands on the line at hand.
func (d *direct) new(kind manifest.Kind, text string) *manifest.Node {
	n := d.node()
	n.Kind, n.Text, n.Line = kind, text, d.lineOf(d.line)
	return n
}

// char is the character at an offset, a line's end at the end of the text.
func (d *direct) char(at int) byte {
	if at >= len(d.text) {
		return '\n'
	}
	return d.text[at]
}

// blank reports whether there is a space or a line's end at an offset.
func (d *direct) blank(at int) bool { return d.char(at) == ' ' || d.char(at) == '\n' }

// next skips lines that hold nothing and returns the column at which the next
// begins, -1 at the end. It must be at the start of a line, and stays at one.
func (d *direct) next() int {
	for d.at < len(d.text) {
		d.start = d.at
		i := d.at
		for d.char(i) == ' ' {
			i++
		}
		if c := d.char(i); c != '\n' && c != '#' {
			return i - d.at
		}
		d.skipLine()
	}
	return -1
}

// lineEnd is the offset at which the line at hand ends.
func (d *direct) lineEnd() int {
	if i := strings.IndexByte(d.text[d.at:], '\n'); i >= 0 {
		return d.at + i
	}
	return len(d.text)
}

func (d *direct) skipLine() {
	d.at = min(len(d.text), d.lineEnd()+1)
	d.start = d.at
	d.line++
}

// spaces skips spaces, and reports whether nothing follows them on the line but
// a comment.
func (d *direct) spaces() (empty bool) {
	from := d.at
	for d.char(d.at) == ' ' {
		d.at++
	}
	c := d.char(d.at)
	return c == '\n' || c == '#' && d.at > from
}

// finish ends a value that is complete on its line.
func (d *direct) finish() {
	if d.odd || !d.spaces() {
		d.odd = true
		return
	}
	d.skipLine()
}

// dash reports whether an item of a list begins at an offset.
func (d *direct) dash(at int) bool { return d.char(at) == '-' && d.blank(at+1) }

// null makes the value of what is followed by nothing on a line.
func (d *direct) null(line int) *manifest.Node {
	n := d.node()
	n.Line = line
	return n
}

// nested reads the map or list that begins on this line at column col.
func (d *direct) nested(col, depth int) *manifest.Node {
	d.at = d.start + col
	switch {
	case depth > deepest:
		return d.fail()
	case d.dash(d.at):
		return d.sequence(col, depth)
	}
	return d.mapping(col, depth)
}

func (d *direct) mapping(col, depth int) *manifest.Node {
	out := d.new(manifest.Map, "")
	first := len(d.fields)
	for {
		key, ok := d.key()
		if !ok {
			return d.fail()
		}
		f := manifest.Field{Name: key.name, Line: d.lineOf(d.line)}
		f.Value = d.value(col, depth)
		d.remark(key.kind, key.text, f.Line)
		d.fields = append(d.fields, f)
		if !d.again(col, false) {
			break
		}
	}
	out.Fields = cut(&d.someFields, d.fields[first:])
	d.fields = d.fields[:first]
	return out
}

// again goes to the next entry of the map or list at column col, if there is one.
func (d *direct) again(col int, list bool) bool {
	if d.odd {
		return false
	}
	c := d.next()
	if c < col {
		return false
	}
	if c > col || d.dash(d.at+c) != list {
		// A list that is not indented ends where its map goes on.
		d.odd = d.odd || c > col || !list
		return false
	}
	d.at += c
	return true
}

// value reads what follows the colon of a key at column col.
func (d *direct) value(col, depth int) *manifest.Node {
	if !d.spaces() {
		return d.inline(col)
	}
	line := d.lineOf(d.line)
	d.skipLine()
	c := d.next()
	if c > col || c == col && d.dash(d.at+c) {
		return d.nested(c, depth+1)
	}
	return d.null(line)
}

func (d *direct) sequence(col, depth int) *manifest.Node {
	out := d.new(manifest.List, "")
	first := len(d.items)
	for {
		d.at++
		d.items = append(d.items, d.item(col, depth))
		if !d.again(col, true) {
			break
		}
	}
	out.Items = cut(&d.someItems, d.items[first:])
	d.items = d.items[:first]
	return out
}

// item reads what follows the dash at column col.
func (d *direct) item(col, depth int) *manifest.Node {
	if d.spaces() {
		line := d.lineOf(d.line)
		d.skipLine()
		if c := d.next(); c > col {
			return d.nested(c, depth+1)
		}
		return d.null(line)
	}
	if d.dash(d.at) || d.keyed() {
		return d.nested(d.at-d.start, depth+1)
	}
	return d.inline(col)
}
