package source

import (
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
)

// flow reads a list or a map in brackets that ends on its line.
func (d *direct) flow(depth int) *manifest.Node {
	if d.odd || depth > deepest {
		return d.fail()
	}
	switch c := d.char(d.at); {
	case c == '[':
		return d.flowList(depth)
	case c == '{':
		return d.flowMap(depth)
	case c == '"' || c == '\'':
		n := d.new(manifest.String, "")
		n.Text = d.quoted(-1)
		return n
	}
	text := d.flowText()
	if d.odd {
		return nil
	}
	n := d.new(manifest.String, "")
	n.Kind, n.Text = plainScalar(text)
	d.remark(n.Kind, text, n.Line)
	return n
}

func (d *direct) flowList(depth int) *manifest.Node {
	out := d.new(manifest.List, "")
	first := len(d.items)
	for more := d.enter(']'); more; more = d.more(']') {
		d.items = append(d.items, d.flow(depth+1))
	}
	out.Items = cut(&d.someItems, d.items[first:])
	d.items = d.items[:first]
	return out
}

func (d *direct) flowMap(depth int) *manifest.Node {
	out := d.new(manifest.Map, "")
	first := len(d.fields)
	for more := d.enter('}'); more; more = d.more('}') {
		k := d.flowKey()
		if d.odd {
			break
		}
		f := manifest.Field{Name: k.name, Line: d.lineOf(d.line)}
		f.Value = d.flow(depth + 1)
		d.remark(k.kind, k.text, f.Line)
		d.fields = append(d.fields, f)
	}
	out.Fields = cut(&d.someFields, d.fields[first:])
	d.fields = d.fields[:first]
	return out
}

// flowKey reads a key with its colon, and goes to its value.
func (d *direct) flowKey() (k key) {
	from := d.at
	if c := d.char(d.at); c == '"' || c == '\'' {
		k.kind, k.text = manifest.String, d.quoted(-1)
		k.name = k.text
	} else if k.text = d.flowText(); !d.odd {
		k.name, k.kind = plainKey(k.text)
	}
	if d.at-from >= longestKey || d.char(d.at) != ':' || d.char(d.at+1) != ' ' {
		d.odd = true
	}
	d.at++
	d.spaces()
	return k
}

// enter passes an opening bracket; it says whether anything is inside.
func (d *direct) enter(end byte) bool {
	d.at++
	d.spaces()
	if d.char(d.at) == end {
		d.at++
		return false
	}
	return true
}

// more passes a comma, after which there is more, or the closing bracket.
func (d *direct) more(end byte) bool {
	if d.odd {
		return false
	}
	d.spaces()
	c := d.char(d.at)
	d.odd = c != ',' && c != end
	d.at++
	if c == ',' {
		d.spaces()
	}
	return c == ',' && !d.odd
}

// flowText reads text without quotes in brackets. A colon ends it unless it is
// plainly inside a word, as in an image's name.
func (d *direct) flowText() string {
	from := d.at
	if c := d.char(from); !opens(c) && (c != '-' || d.blank(from+1)) {
		d.odd = true
		return ""
	}
	for ; ; d.at++ {
		switch c := d.char(d.at); {
		case strings.IndexByte(",]}", c) >= 0, c == ':' && d.blank(d.at+1):
			return strings.TrimRight(d.text[from:d.at], " ")
		case strings.IndexByte("\n[{?#&*!|>%@`\"'", c) >= 0, c == ':' && !opens(d.char(d.at+1)):
			d.odd = true
			return ""
		}
	}
}
