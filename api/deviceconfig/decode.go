package deviceconfig

import (
	"fmt"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
)

// Decode reads one config of the NVIDIA device plugin by the rules of v0.20.0.
//
// A nil or null node is an empty file, which the plugin accepts: the zero
// Config. Problems never stop the decoding: beside them stands what the config
// evidently means, a misspelt or misplaced key read as the one that was meant.
// A Problem with Warning set is accepted by the plugin; any other one makes it
// exit, or makes it ignore in silence what was written.
func Decode(n *manifest.Node) (Config, []Problem) {
	d := &decoder{}
	if n == nil || n.Kind == manifest.Null {
		return Config{}, nil
	}
	if n.Kind != manifest.Map {
		d.wrongKind(n, "", "a map with version, flags and sharing")
		return Config{}, d.problems
	}
	d.repeated(n)
	root := d.canonical(n)
	d.version(root)
	var c Config
	c.Flags = d.flags(root.Get("flags"))
	d.patterns(root.Get("resources"))
	c.IMEX = d.imex(root.Get("imex"))
	if sharing := root.Get("sharing"); d.isMap(sharing, "sharing") {
		c.TimeSlicing = d.timeSlicing(sharing)
		c.MPS = d.section(sharing.Get("mps"), "sharing.mps", true)
		d.clash(sharing, c)
	}
	return c, d.problems
}

// decoder gathers the problems of one document.
type decoder struct {
	problems []Problem
	// strays are values that were written in the wrong place, by the path at
	// which they belong.
	strays  map[string]manifest.Field
	mpsOnly bool // the config has a section mps and no timeSlicing
}

// fail reports what the plugin refuses, or does not do although it is written.
func (d *decoder) fail(n *manifest.Node, field, fix, format string, args ...any) {
	d.problems = append(d.problems, Problem{Line: n.LineOf(), Field: field, Fix: fix, Text: fmt.Sprintf(format, args...)})
}

// warn reports what the plugin accepts with another meaning than it seems to have.
func (d *decoder) warn(n *manifest.Node, field, fix, format string, args ...any) {
	d.fail(n, field, fix, format, args...)
	d.last().Warning = true
}

// last is the problem that was reported last.
func (d *decoder) last() *Problem { return &d.problems[len(d.problems)-1] }

// wrongKind reports a value of the wrong type.
func (d *decoder) wrongKind(n *manifest.Node, field, want string) {
	d.fail(n, field, "", "expected %s, found %s", want, show(n))
}

// isMap reports whether n is a map that can be read; null and absent values
// are passed over as the plugin does.
func (d *decoder) isMap(n *manifest.Node, field string) bool {
	if n == nil || n.Kind == manifest.Null {
		return false
	}
	if n.Kind != manifest.Map {
		d.wrongKind(n, field, "a map")
		return false
	}
	return true
}

// boolean reads true or false. A quoted one is refused, yet read.
func (d *decoder) boolean(n *manifest.Node, field string, otherwise bool) bool {
	switch {
	case n == nil || n.Kind == manifest.Null:
		return otherwise
	case n.Kind == manifest.Bool:
		return n.Text == "true"
	}
	text := strings.ToLower(n.Text)
	if n.Kind == manifest.String && (text == "true" || text == "false") {
		d.fail(n, field, "write "+text+" without quotes", "expected true or false, found %s", show(n))
		return text == "true"
	}
	d.wrongKind(n, field, "true or false")
	return otherwise
}

// repeated reports keys that stand twice.
func (d *decoder) repeated(n *manifest.Node) {
	for _, dup := range n.Duplicates() {
		d.problems = append(d.problems, Problem{
			Line: dup.Second, Field: dup.Path, Warning: true, Strict: true,
			Text: fmt.Sprintf("%s is given twice, on lines %d and %d; the second one counts", dup.Path, dup.First, dup.Second),
			Fix:  fmt.Sprintf("remove line %d or line %d", dup.First, dup.Second),
		})
	}
}

// version checks the schema's version; an absent one means v1.
func (d *decoder) version(root *manifest.Node) {
	n := root.Get("version")
	if n == nil || n.Kind == manifest.Null {
		return
	}
	if n.Kind != manifest.String || (n.Text != "v1" && n.Text != "") {
		d.fail(n, "version", "write version: v1", "unknown version %s; the device plugin knows v1 only", show(n))
	}
}

// clash reports combinations of sharing that the plugin refuses or resolves in silence.
func (d *decoder) clash(sharing *manifest.Node, c Config) {
	if c.MPS == nil {
		return
	}
	if c.TimeSlicing != nil {
		d.fail(sharing.Get("timeSlicing"), "sharing.timeSlicing", "remove sharing.timeSlicing or sharing.mps",
			"timeSlicing and mps are both set: mps wins and timeSlicing is ignored")
	}
	if c.Flags.MIGStrategy == "mixed" {
		d.fail(sharing.Get("mps"), "sharing.mps", "set flags.migStrategy to none or single, or share with timeSlicing",
			"the plugin refuses mps together with migStrategy mixed")
	}
}

// show writes a value for a message.
func show(n *manifest.Node) string {
	switch {
	case n == nil || n.Kind == manifest.Null:
		return "nothing"
	case n.Kind == manifest.List && len(n.Items) == 0:
		return "an empty list"
	case n.Kind == manifest.List || n.Kind == manifest.Map:
		return "a " + n.Kind.String()
	case n.Kind == manifest.String:
		return fmt.Sprintf("the string %q", n.Text)
	default:
		return n.Text
	}
}
