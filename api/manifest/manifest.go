// Package manifest holds a YAML or JSON document as a tree that remembers where
// each value stood, so that whatever reads it can name the line it objects to.
//
// The tree keeps what a decoder would throw away: repeated keys, the order of
// fields, and the text of a scalar as it was written. It does not parse;
// internal/intake turns bytes into trees.
package manifest

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// Kind says what a Node holds.
type Kind uint8

// The kinds of a Node. The zero value is Null.
const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Map
)

// String names the kind as a person would: "null", "boolean", "number", "string", "list", "map".
func (k Kind) String() string {
	return [...]string{"null", "boolean", "number", "string", "list", "map"}[k]
}

// A Node is one value of a document. Nodes are read-only once built.
type Node struct {
	Kind Kind
	Line int    // 1-based line in the file
	Text string // a scalar's text; for Number a JSON number, for Bool "true" or "false"
	// TextLine is the line on which the text of a block scalar starts, below
	// the line of its key; 0 for every other value, whose text is all on Line.
	TextLine int
	Fields   []Field
	Items    []*Node
}

// A Field is one key of a Map with its value; a key may stand more than once.
type Field struct {
	Name  string
	Line  int // line of the key
	Value *Node
}

// Get returns the value of the last field called name, or nil. The last one
// wins as in sigs.k8s.io/yaml and Terraform; Duplicates lists the others.
// A nil node has no fields.
func (n *Node) Get(name string) *Node {
	if n == nil {
		return nil
	}
	for i := len(n.Fields) - 1; i >= 0; i-- {
		if n.Fields[i].Name == name {
			return n.Fields[i].Value
		}
	}
	return nil
}

// At follows names from n through nested maps; it returns nil when one is missing.
func (n *Node) At(names ...string) *Node {
	for _, name := range names {
		n = n.Get(name)
	}
	return n
}

// Str returns the text of a scalar, and "" for nil, null, lists and maps.
func (n *Node) Str() string {
	if n == nil {
		return ""
	}
	return n.Text
}

// LineOf returns n's line, and 0 for nil.
func (n *Node) LineOf() int {
	if n == nil {
		return 0
	}
	return n.Line
}

// Find follows a field path as Kubernetes prints it, for example
// "spec.template.spec.requirements[0].values" or "limits[nvidia.com/gpu]", as
// far as it goes. It returns the deepest node reached and whether that was the
// whole path.
func (n *Node) Find(path string) (*Node, bool) {
	for path != "" {
		next, rest := n.step(path)
		if next == nil {
			return n, false
		}
		n, path = next, rest
	}
	return n, n != nil
}

// step takes one element off path. Keys may hold dots, so the longest field
// name that fits is taken.
func (n *Node) step(path string) (*Node, string) {
	if n == nil {
		return nil, path
	}
	path = strings.TrimPrefix(path, ".")
	if strings.HasPrefix(path, "[") {
		end := strings.IndexByte(path, ']')
		if end < 0 {
			return nil, path
		}
		key := path[1:end]
		if n.Kind == List {
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(n.Items) {
				return nil, path
			}
			return n.Items[i], path[end+1:]
		}
		return n.Get(key), path[end+1:]
	}
	best := -1
	for i, f := range n.Fields {
		rest, ok := strings.CutPrefix(path, f.Name)
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') && (best < 0 || len(f.Name) >= len(n.Fields[best].Name)) {
			best = i
		}
	}
	if best < 0 {
		return nil, path
	}
	return n.Fields[best].Value, path[len(n.Fields[best].Name):]
}

// A Duplicate is a key that stands twice in one map.
type Duplicate struct {
	Path          string // field path of the map's key, for example "spec.ttlSecondsAfterEmpty"
	First, Second int    // lines of the two keys; the second one's value counts
}

// Duplicates lists every repeated key below n, in document order.
func (n *Node) Duplicates() []Duplicate {
	var out []Duplicate
	n.duplicates("", &out)
	return out
}

func (n *Node) duplicates(path string, out *[]Duplicate) {
	if n == nil {
		return
	}
	for i, f := range n.Fields {
		at := Join(path, f.Name)
		for j := range i {
			if n.Fields[j].Name == f.Name {
				*out = append(*out, Duplicate{Path: at, First: n.Fields[j].Line, Second: f.Line})
			}
		}
		f.Value.duplicates(at, out)
	}
	for i, item := range n.Items {
		item.duplicates(path+"["+strconv.Itoa(i)+"]", out)
	}
}

// Join appends a field name to a path, in brackets when the name itself holds a dot or a slash.
func Join(path, name string) string {
	if strings.ContainsAny(name, "./[") {
		return path + "[" + name + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// JSON writes the tree as JSON. Of a repeated key only the last value is
// written, in the place of the first.
func (n *Node) JSON() []byte {
	var b bytes.Buffer
	n.writeJSON(&b)
	return b.Bytes()
}

func (n *Node) writeJSON(b *bytes.Buffer) {
	if n == nil {
		b.WriteString("null")
		return
	}
	switch n.Kind {
	case Null:
		b.WriteString("null")
	case Bool, Number:
		b.WriteString(n.Text)
	case String:
		writeString(b, n.Text)
	case List:
		b.WriteByte('[')
		for i, item := range n.Items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.writeJSON(b)
		}
		b.WriteByte(']')
	case Map:
		n.writeMap(b)
	}
}

func (n *Node) writeMap(b *bytes.Buffer) {
	b.WriteByte('{')
	seen := map[string]bool{}
	for _, f := range n.Fields {
		if seen[f.Name] {
			continue
		}
		if len(seen) > 0 {
			b.WriteByte(',')
		}
		seen[f.Name] = true
		writeString(b, f.Name)
		b.WriteByte(':')
		n.Get(f.Name).writeJSON(b)
	}
	b.WriteByte('}')
}

// writeString encodes s as encoding/json does; that cannot fail for a string.
func writeString(b *bytes.Buffer, s string) {
	text, _ := json.Marshal(s)
	b.Write(text)
}

// A Document is one object of an input file, or the values of one Helm release.
type Document struct {
	File       string // path as the user gave it, "-" for standard input
	Via        string // the Terraform block it came from: "kubectl_manifest.gpu"; "" for plain files
	APIVersion string // "" for Helm values
	Kind       string // Kubernetes kind; KindHelmValues or KindHelmRelease for values
	Namespace  string
	Name       string
	Root       *Node
	// Again reads the document once more where Root is only its head (kind,
	// metadata, and the phase of its status), since a cluster's worth of trees is
	// too much to hold; nil where Root is all.
	Again func() *Node
}

// Tree returns the whole document, which may take reading it: whoever needs it
// for long keeps it.
func (d Document) Tree() *Node {
	if d.Again != nil {
		return d.Again()
	}
	return d.Root
}

// Kinds of documents that are not Kubernetes objects.
const (
	// KindHelmValues is a bare values file of the device-plugin chart.
	KindHelmValues = "HelmValues"
	// KindHelmRelease is a Terraform helm_release: Root has the fields chart,
	// repository, version, name, namespace, values (the merged values) and set,
	// the list of its set blocks, each with name, value and type.
	KindHelmRelease = "HelmRelease"
	// KindMIGConfigs is a mig-parted file: Root has version and mig-configs.
	KindMIGConfigs = "MIGConfigs"
	// KindDeviceConfig is a bare config file of the device plugin, version v1.
	KindDeviceConfig = "DeviceConfig"
)

// Group returns the part of APIVersion before the slash, "" for the core group.
func (d Document) Group() string {
	group, _, ok := strings.Cut(d.APIVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// Title names the object as messages do: "NodePool gpu", "Pod team-a/web".
func (d Document) Title() string {
	if d.Namespace == "" {
		return d.Kind + " " + d.Name
	}
	return d.Kind + " " + d.Namespace + "/" + d.Name
}
