package health

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Policy says what each Xid means. The zero value is the table alone; that of
// NVIDIA's plugin's defaults is NewPolicy("", "", "").
type Policy struct {
	off     bool // no health checks at all
	ignore  all
	enable  all
	classes map[uint64]Class // overrides
}

// all is a set of Xids, or every one.
type all struct {
	every bool
	some  map[uint64]bool
}

func (a all) has(n uint64) bool { return a.every || a.some[n] }

// NewPolicy makes a policy of the plugin's two environment variables and of
// Kerf's own.
//
// disable is DP_DISABLE_HEALTHCHECKS: Xids to ignore beside those that are
// ignored by default; "all" or "xids" ends all health checks. enable is
// DP_ENABLE_HEALTHCHECKS: Xids not to ignore, or "all"; it wins. What is no
// number in either is passed over, as the plugin does. classes is
// KERF_XID_CLASSES: "94=reset,69=ignore", with the classes ignore, transient,
// reset and fatal; it wins over both, and a mistake in it is an error.
func NewPolicy(disable, enable, classes string) (Policy, error) {
	p := Policy{ignore: numbers(disable), enable: numbers(enable), classes: map[uint64]Class{}}
	for word := range strings.SplitSeq(disable, ",") {
		if w := strings.ToLower(strings.TrimSpace(word)); w == "all" || w == "xids" {
			p.ignore.every = true
		}
	}
	for word := range strings.SplitSeq(enable, ",") {
		if strings.ToLower(strings.TrimSpace(word)) == "all" {
			p.enable.every = true
		}
	}
	p.off = p.ignore.every && !p.enable.every && len(p.enable.some) == 0
	for _, n := range ignoredByPlugin {
		p.ignore.some[n] = true
	}
	for _, entry := range strings.FieldsFunc(classes, func(r rune) bool { return r == ',' || r == ' ' }) {
		number, class, _ := strings.Cut(entry, "=")
		n, err := strconv.ParseUint(number, 10, 64)
		c := slices.IndexFunc([]Class{Ignored, Transient, Reset, Fatal}, func(c Class) bool { return c.String() == class })
		if err != nil || c < 0 {
			return Policy{}, fmt.Errorf("KERF_XID_CLASSES: %q: expected an Xid and its class, as in 94=reset; the classes are ignore, transient, reset and fatal", entry)
		}
		p.classes[n] = Class(c)
	}
	if len(p.classes) > 0 {
		p.off = false
	}
	return p, nil
}

// numbers reads a comma list of Xids and passes over what is none.
func numbers(list string) all {
	out := all{some: map[uint64]bool{}}
	for word := range strings.SplitSeq(list, ",") {
		if n, err := strconv.ParseUint(strings.TrimSpace(word), 10, 64); err == nil {
			out.some[n] = true
		}
	}
	return out
}

// Off reports whether health is not looked at.
func (p Policy) Off() bool { return p.off }

// Class is what an Xid means under the policy.
func (p Policy) Class(n uint64) Class {
	if c, ok := p.classes[n]; ok {
		return c
	}
	row, known := xids[n]
	c := row.class
	if !known {
		c = Transient
	}
	switch {
	case p.enable.has(n):
		return max(c, Transient)
	case p.ignore.has(n):
		return Ignored
	}
	return c
}
