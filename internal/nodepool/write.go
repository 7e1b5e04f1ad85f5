package nodepool

import (
	"io"
	"regexp"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"go.yaml.in/yaml/v3"
)

// writeYAML writes a tree as one YAML document, in the order of its fields.
func writeYAML(w io.Writer, n *manifest.Node) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(yamlNode(n)); err != nil {
		return err
	}
	return enc.Close()
}

// tags are the YAML types of scalars; with them the encoder quotes what would
// otherwise be read as another type.
var tags = map[manifest.Kind]string{
	manifest.Null: "!!null", manifest.Bool: "!!bool", manifest.String: "!!str",
}

func yamlNode(n *manifest.Node) *yaml.Node {
	if n == nil {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	}
	switch n.Kind {
	case manifest.List:
		out := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, item := range n.Items {
			out.Content = append(out.Content, yamlNode(item))
		}
		if short(n) {
			out.Style = yaml.FlowStyle
		}
		return out
	case manifest.Map:
		return yamlMap(n)
	case manifest.Null:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	case manifest.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: n.Text}
	}
	return scalar(tags[n.Kind], n.Text)
}

// ambiguous matches strings that YAML 1.1, which kubectl reads, takes for a
// boolean or a number in base 60, and YAML 1.2, which the encoder thinks of, does not.
var ambiguous = regexp.MustCompile(`^(?i:y|yes|n|no|on|off)$|^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$`)

func scalar(tag, s string) *yaml.Node {
	out := &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: s}
	switch {
	case tag == "!!str" && ambiguous.MatchString(s):
		out.Style = yaml.DoubleQuotedStyle
	case strings.Contains(s, "\n"):
		out.Style = yaml.LiteralStyle
	}
	return out
}

// yamlMap writes each key once, with its last value, in the place of the first.
func yamlMap(n *manifest.Node) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	seen := map[string]bool{}
	for _, f := range n.Fields {
		if seen[f.Name] {
			continue
		}
		seen[f.Name] = true
		out.Content = append(out.Content, scalar("!!str", f.Name), yamlNode(n.Get(f.Name)))
	}
	return out
}

// short reports whether a list reads better on one line: only scalars, and few of them.
func short(n *manifest.Node) bool {
	width := 0
	for _, item := range n.Items {
		if item == nil || item.Kind == manifest.List || item.Kind == manifest.Map {
			return false
		}
		width += len(item.Text) + 2
	}
	return width <= 80
}
