package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// validStart tells JSON from a YAML flow map or a template: a brace is followed
// by a quoted key or by the closing brace.
func validStart(data []byte) bool {
	rest := strings.TrimLeft(string(data[1:min(len(data), 4096)]), " \t\r\n")
	return rest != "" && (rest[0] == '"' || rest[0] == '}')
}

// parseJSON reads the values that stand one after the other in data. It keeps
// lines, the order of fields and repeated keys, which encoding/json loses. With
// h only the heads of Pods are kept.
func parseJSON(data []byte, h *heads) ([]*manifest.Node, []model.Note) {
	s := &scanner{data: data, line: 1, heads: h}
	var roots []*manifest.Node
	for s.space(); s.at < len(s.data); s.space() {
		from := s.at
		root, err := s.value(0)
		if err != nil {
			return roots, []model.Note{{
				Code: "syntax", Severity: model.Error, Place: model.Place{Line: s.line},
				Text: "this is not valid JSON, so nothing from here on was read: " + err.Error(),
			}}
		}
		roots = append(roots, s.head(root, from))
	}
	return roots, nil
}

// JSON reads one JSON value and nothing after it. It keeps the order of fields
// and repeated keys, and refuses what is nested more than 500 deep.
func JSON(data []byte) (*manifest.Node, error) {
	s := &scanner{data: data, line: 1}
	n, err := s.value(0)
	if err != nil {
		return nil, err
	}
	if s.space(); s.at < len(s.data) {
		return nil, s.unexpected("the end")
	}
	return n, nil
}

// head cuts the value that stands between from and here.
func (s *scanner) head(v *manifest.Node, from int) *manifest.Node {
	if s.heads == nil {
		return v
	}
	at := scanner{data: s.data[:s.at], at: from, line: v.Line}
	return s.heads.cut(v, func() *manifest.Node {
		again := at
		whole, _ := again.value(0)
		return whole
	})
}

// A scanner reads JSON from data at the offset at, on the given line.
type scanner struct {
	data  []byte
	at    int
	line  int
	heads *heads
}

func (s *scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case '\n':
			s.line++
		case ' ', '\t', '\r':
		default:
			return
		}
		s.at++
	}
}

// next is the next character that is no space, 0 at the end.
func (s *scanner) next() byte {
	s.space()
	if s.at >= len(s.data) {
		return 0
	}
	return s.data[s.at]
}

func (s *scanner) value(depth int) (*manifest.Node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("values are nested more than %d deep", maxDepth)
	}
	c := s.next()
	n := &manifest.Node{Line: s.line}
	switch {
	case c == '{':
		return n, s.object(n, depth)
	case c == '[':
		return n, s.array(n, depth)
	case c == '"':
		n.Kind = manifest.String
		var err error
		n.Text, err = s.text()
		return n, err
	case c == '-' || c >= '0' && c <= '9':
		return n, s.number(n)
	}
	return s.word(n)
}

// word reads true, false or null.
func (s *scanner) word(n *manifest.Node) (*manifest.Node, error) {
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.data[s.at:], []byte(word)) {
			s.at += len(word)
			if word != "null" {
				n.Kind, n.Text = manifest.Bool, word
			}
			return n, nil
		}
	}
	return nil, s.unexpected("a value")
}

func (s *scanner) object(n *manifest.Node, depth int) error {
	n.Kind = manifest.Map
	s.at++
	if s.next() == '}' {
		s.at++
		return nil
	}
	for {
		if s.next() != '"' {
			return s.unexpected("a quoted field name")
		}
		line := s.line
		name, err := s.text()
		if err != nil {
			return err
		}
		if s.next() != ':' {
			return s.unexpected("a colon")
		}
		s.at++
		v, err := s.value(depth + 1)
		if err != nil {
			return err
		}
		n.Fields = append(n.Fields, manifest.Field{Name: name, Line: line, Value: v})
		if more, err := s.more('}'); !more || err != nil {
			return err
		}
	}
}

func (s *scanner) array(n *manifest.Node, depth int) error {
	n.Kind = manifest.List
	s.at++
	if s.next() == ']' {
		s.at++
		return nil
	}
	for {
		s.space()
		from := s.at
		v, err := s.value(depth + 1)
		if err != nil {
			return err
		}
		if depth == 1 { // items of a list
			v = s.head(v, from)
		}
		n.Items = append(n.Items, v)
		if more, err := s.more(']'); !more || err != nil {
			return err
		}
	}
}

// more reads a comma, or the end of a list or map.
func (s *scanner) more(end byte) (bool, error) {
	switch s.next() {
	case ',':
		s.at++
		return true, nil
	case end:
		s.at++
		return false, nil
	}
	return false, s.unexpected("a comma or " + string(end))
}

// text reads a quoted string.
func (s *scanner) text() (string, error) {
	start := s.at
	plain := true
	for s.at++; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			raw := s.data[start:s.at]
			if plain && utf8.Valid(raw) {
				return string(raw[1 : len(raw)-1]), nil
			}
			var out string
			if err := json.Unmarshal(raw, &out); err != nil {
				return "", fmt.Errorf("a string with a bad escape")
			}
			return out, nil
		case c == '\\':
			plain = false
			s.at++
		case c < ' ':
			return "", fmt.Errorf("a string that is not closed on its line")
		}
	}
	s.at = len(s.data)
	return "", fmt.Errorf("a string that is not closed")
}

// number reads a number, written again as sigs.k8s.io/yaml would.
func (s *scanner) number(n *manifest.Node) error {
	start := s.at
	for s.at < len(s.data) && strings.IndexByte("+-.eE0123456789", s.data[s.at]) >= 0 {
		s.at++
	}
	raw := s.data[start:s.at]
	if !json.Valid(raw) {
		return fmt.Errorf("%s is no number", raw)
	}
	n.Kind = manifest.Number
	n.Text = string(raw)
	if text, ok := number(n.Text); ok {
		n.Text = text
	}
	return nil
}

func (s *scanner) unexpected(want string) error {
	if s.at >= len(s.data) {
		return fmt.Errorf("the text ends where %s should stand", want)
	}
	r, _ := utf8.DecodeRune(s.data[s.at:])
	return fmt.Errorf("%q where %s should stand", r, want)
}
