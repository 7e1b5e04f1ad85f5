package source

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kerfdev/kerf/api/manifest"
)

// booleans11 are the plain words that YAML 1.1 and sigs.k8s.io/yaml, and so
// Kubernetes, take for booleans and the YAML 1.2 core schema does not.
var booleans11 = map[string]string{
	"y": "true", "Y": "true", "yes": "true", "Yes": "true", "YES": "true", "on": "true", "On": "true", "ON": "true",
	"n": "false", "N": "false", "no": "false", "No": "false", "NO": "false", "off": "false", "Off": "false", "OFF": "false",
}

var yamlFloat = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// scalar gives the kind and JSON text of a YAML scalar.
func scalar(n *yaml.Node) (manifest.Kind, string) {
	plain := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	if plain && n.Style&yaml.TaggedStyle == 0 {
		if text, ok := booleans11[n.Value]; ok {
			return manifest.Bool, text
		}
	}
	switch n.ShortTag() {
	case "!!null":
		return manifest.Null, ""
	case "!!bool":
		if text, ok := booleans11[n.Value]; ok {
			return manifest.Bool, text
		}
		return manifest.Bool, strings.ToLower(n.Value)
	case "!!int", "!!float":
		if text, ok := number(n.Value); ok {
			return manifest.Number, text
		}
	}
	return manifest.String, n.Value
}

// number writes a YAML number as JSON: octal, hexadecimal and underscores are
// resolved, and a float is written as encoding/json does. Infinity and NaN have
// no JSON form and are no numbers.
func number(value string) (string, bool) {
	plain := strings.ReplaceAll(value, "_", "")
	if i, err := strconv.ParseInt(plain, 0, 64); err == nil {
		return strconv.FormatInt(i, 10), true
	}
	if u, err := strconv.ParseUint(plain, 0, 64); err == nil {
		return strconv.FormatUint(u, 10), true
	}
	if !yamlFloat.MatchString(plain) {
		return "", false
	}
	f, err := strconv.ParseFloat(plain, 64)
	if err != nil || math.IsInf(f, 0) {
		return "", false
	}
	return formatFloat(f), true
}

// formatFloat writes f as encoding/json does.
func formatFloat(f float64) string {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.FormatFloat(f, format, -1, 64)
}

// keyText is the JSON name of a YAML key.
func keyText(n *yaml.Node) string {
	kind, text := scalar(n)
	return keyName(n.Value, kind, text)
}

// keyName is the name that sigs.k8s.io/yaml gives a key: null stays as written,
// and a number that is no integer is put as Go's %g does.
func keyName(written string, kind manifest.Kind, text string) string {
	switch kind {
	case manifest.Null:
		return written
	case manifest.Number:
		if f, err := strconv.ParseFloat(text, 64); err == nil && !integer(written) {
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
	}
	return text
}

// integer reports whether YAML takes a plain text for an integer.
func integer(text string) bool {
	plain := strings.ReplaceAll(text, "_", "")
	_, signed := strconv.ParseInt(plain, 0, 64)
	_, unsigned := strconv.ParseUint(plain, 0, 64)
	return signed == nil || unsigned == nil
}
