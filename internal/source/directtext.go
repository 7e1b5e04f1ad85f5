package source

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kerfdev/kerf/api/manifest"
)

// longestKey is where the library stops looking for a colon, with room to spare.
const longestKey = 1000

// A key is the name of a field, with what it would be as a value.
type key struct {
	name string
	kind manifest.Kind
	text string
}

// opens reports whether text without quotes can begin with c wherever it
// stands. There is more that can, such as -1, which callers know of.
func opens(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_' || c == '/' || c == '.' || c == '$' || c == '(' || c == '~'
}

// keyed reports whether a key stands here.
func (d *direct) keyed() bool {
	at := d.at
	_, ok := d.key()
	d.at = at
	return ok
}

// key reads a key and its colon; ok is false where there is none.
func (d *direct) key() (k key, ok bool) {
	from := d.at
	if c := d.char(from); c == '"' || c == '\'' {
		k.kind, k.text = manifest.String, d.quoted(-1)
		k.name = k.text
		ok = !d.odd && d.at-from < longestKey && d.char(d.at) == ':' && d.blank(d.at+1)
		d.at++
		return k, ok
	}
	if !opens(d.char(from)) || strings.HasPrefix(d.text[from:], "...") {
		return k, false
	}
	for i := from; d.char(i) != '\n'; i++ {
		if d.char(i) == ':' && d.blank(i+1) {
			k.text = d.text[from:i]
			k.name, k.kind = plainKey(k.text)
			d.at = i + 1
			return k, i-from < longestKey && k.text[len(k.text)-1] != ' '
		}
		if d.char(i) == ' ' && d.char(i+1) == '#' {
			return k, false
		}
	}
	return k, false
}

// plainKey is the JSON name of a key without quotes.
func plainKey(text string) (string, manifest.Kind) {
	kind, name := plainScalar(text)
	return keyName(text, kind, name), kind
}

// plainScalar gives the kind and the JSON text of a text without quotes.
func plainScalar(text string) (manifest.Kind, string) {
	switch c := text[0]; {
	case text == "true" || text == "false":
		return manifest.Bool, text
	case c >= '0' && c <= '9':
		if c != '0' && len(text) < 18 && strings.Trim(text, "0123456789") == "" {
			return manifest.Number, text
		}
		if strings.Trim(text, "0123456789abcdefABCDEFxXoO_.+-") != "" {
			return manifest.String, text
		}
	case strings.IndexByte("+-.~yYnNtTfFoO", c) < 0:
		return manifest.String, text
	case len(text) > 5 && c > '.':
		return manifest.String, text // longer than any word for null, true or false
	}
	return scalar(&yaml.Node{Kind: yaml.ScalarNode, Value: text})
}

// inline reads a value that begins here, inside the map or list at column col.
func (d *direct) inline(col int) *manifest.Node {
	switch c := d.char(d.at); {
	case c == '"' || c == '\'':
		n := d.new(manifest.String, "")
		n.Text = d.quoted(col)
		d.finish()
		return n
	case c == '|':
		return d.literal(col)
	case c == '[' || c == '{':
		n := d.flow(0)
		d.finish()
		return n
	case !opens(c) && !(c == '-' && !d.blank(d.at+1)):
		return d.fail()
	}
	n := d.new(manifest.String, "")
	text := d.plain(col)
	if d.odd {
		return nil
	}
	n.Kind, n.Text = plainScalar(text)
	d.remark(n.Kind, text, n.Line)
	return n
}

// plain reads text without quotes up to its last line.
func (d *direct) plain(col int) string {
	text, more := d.plainLine()
	for more && !d.odd {
		i := d.at
		for d.char(i) == ' ' {
			i++
		}
		if d.char(i) == '\n' || i-d.at <= col || d.char(i) == '#' {
			break
		}
		d.at = i
		var next string
		next, more = d.plainLine()
		text += " " + next
	}
	return text
}

// plainLine reads the rest of a line of text without quotes; more says that the
// text may go on.
func (d *direct) plainLine() (text string, more bool) {
	text, more = d.text[d.at:d.lineEnd()], true
	if i := strings.Index(text, " #"); i >= 0 {
		text, more = text[:i], false
	}
	text = strings.TrimRight(text, " ")
	if strings.HasSuffix(text, ":") || strings.Contains(text, ": ") {
		d.odd = true
	}
	d.skipLine()
	return text, more
}

// quoted reads text in quotes. It may go on in lines that are indented by more
// than col; with col -1 it ends on its line.
func (d *direct) quoted(col int) string {
	mark := d.char(d.at)
	d.at++
	var out strings.Builder
	for from := d.at; ; {
		if d.at >= len(d.text) {
			d.odd = true
			return ""
		}
		switch c := d.text[d.at]; {
		case c == mark && mark == '\'' && d.char(d.at+1) == '\'':
			d.at++
			out.WriteString(d.text[from:d.at])
			d.at++
			from = d.at
		case c == mark:
			d.at++
			if out.Len() == 0 {
				return d.text[from : d.at-1]
			}
			out.WriteString(d.text[from : d.at-1])
			return out.String()
		case c == '\n':
			out.WriteString(strings.TrimRight(d.text[from:d.at], " "))
			out.WriteByte(' ')
			d.fold(col)
			from = d.at
		case c == '\\' && mark == '"':
			out.WriteString(d.text[from:d.at])
			d.escape(&out, col)
			from = d.at
		default:
			d.at++
		}
		if d.odd {
			return ""
		}
	}
}

// fold goes to where a text in quotes goes on in the next line.
func (d *direct) fold(col int) {
	d.skipLine()
	for d.char(d.at) == ' ' {
		d.at++
	}
	d.odd = d.odd || col < 0 || d.char(d.at) == '\n' || d.at-d.start <= col
}

// escape reads a backslash and what it stands for.
func (d *direct) escape(out *strings.Builder, col int) {
	d.at++
	switch c := d.char(d.at); c {
	case '\n':
		d.fold(col)
		return
	case '"', '\\', '/', ' ':
		out.WriteByte(c)
	case 'n':
		out.WriteByte('\n')
	case 't':
		out.WriteByte('\t')
	default:
		d.odd = true
	}
	d.at++
}

// literal reads the text under a bar.
func (d *direct) literal(col int) *manifest.Node {
	n := d.new(manifest.String, "")
	d.at++
	strip := d.char(d.at) == '-'
	if strip {
		d.at++
	}
	if d.char(d.at) != '\n' {
		return d.fail()
	}
	d.skipLine()
	n.TextLine = d.lineOf(d.line)
	indent := 0
	for d.char(d.at+indent) == ' ' {
		indent++
	}
	if indent <= col || d.char(d.at+indent) == '\n' {
		return d.fail()
	}
	n.Text = d.literalLines(indent)
	if !d.odd && strip {
		n.Text = strings.TrimSuffix(n.Text, "\n")
	}
	return n
}

// literalLines reads the lines that are indented by indent, of which empty ones
// at the end do not count.
func (d *direct) literalLines(indent int) string {
	var out strings.Builder
	empty := 0
	for d.at < len(d.text) {
		i, end := d.at, d.lineEnd()
		for i < end && i-d.at < indent && d.text[i] == ' ' {
			i++
		}
		switch {
		case end == len(d.text), i < end && strings.Trim(d.text[i:end], " ") == "":
			d.odd = true // the text ends without a line's end; spaces that count
			return ""
		case i == end:
			empty++
		case i-d.at < indent:
			return out.String()
		default:
			for ; empty > 0; empty-- {
				out.WriteByte('\n')
			}
			out.WriteString(d.text[i : end+1])
		}
		d.skipLine()
	}
	return out.String()
}
