package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// YAML writes a JSON document as YAML with the fields in the same order.
func YAML(doc []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var b bytes.Buffer
	if err := yamlValue(&b, d, "", false); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return bytes.TrimPrefix(b.Bytes(), []byte("\n")), nil
}

// yamlValue writes the next value of d. It stands after "key:", or after "- "
// when inList is set, in a block indented by indent.
func yamlValue(b *bytes.Buffer, d *json.Decoder, indent string, inList bool) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch t {
	case json.Delim('{'):
		return yamlMap(b, d, indent, inList)
	case json.Delim('['):
		return yamlList(b, d, indent, inList)
	}
	if !inList {
		b.WriteByte(' ')
	}
	b.WriteString(yamlScalar(t))
	b.WriteByte('\n')
	return nil
}

func yamlMap(b *bytes.Buffer, d *json.Decoder, indent string, inList bool) error {
	if !d.More() {
		b.WriteString(empty(inList, "{}"))
		_, err := d.Token()
		return err
	}
	if !inList {
		b.WriteByte('\n')
	}
	for first := true; d.More(); first = false {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if !first || !inList {
			b.WriteString(indent)
		}
		b.WriteString(yamlScalar(key) + ":")
		if err := yamlValue(b, d, indent+"  ", false); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func yamlList(b *bytes.Buffer, d *json.Decoder, indent string, inList bool) error {
	if !d.More() {
		b.WriteString(empty(inList, "[]"))
		_, err := d.Token()
		return err
	}
	if inList {
		b.Truncate(b.Len() - 1) // the blank after the outer dash
	}
	b.WriteByte('\n')
	for d.More() {
		b.WriteString(indent + "- ")
		if err := yamlValue(b, d, indent+"  ", true); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func empty(inList bool, text string) string {
	if inList {
		return text + "\n"
	}
	return " " + text + "\n"
}

// bare matches strings that every version of YAML reads as themselves.
var bare = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./@+-]*$`)

// words that YAML 1.1 reads as something else than themselves.
var words11 = regexp.MustCompile(`(?i)^(y|n|yes|no|true|false|on|off|null|~)$`)

func yamlScalar(t json.Token) string {
	s, ok := t.(string)
	if !ok {
		if t == nil {
			return "null"
		}
		return fmt.Sprint(t)
	}
	if bare.MatchString(s) && !words11.MatchString(s) {
		return s
	}
	return quoted(s)
}

// quoted writes s between double quotes with the escapes of YAML.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
