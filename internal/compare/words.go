package compare

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// summary says in a line how the plans compare.
func (d Document) summary() string {
	if len(d.OnlyKerf)+len(d.OnlyKarpenter) > 0 || d.Kerf.Placed != d.Karpenter.Placed {
		var alone []string
		for _, side := range []struct {
			who    string
			groups []GroupDoc
		}{{"kerf", d.OnlyKerf}, {"karpenter", d.OnlyKarpenter}} {
			n := 0
			for _, g := range side.groups {
				n += g.Count
			}
			if n > 0 {
				alone = append(alone, fmt.Sprintf("%s alone places %s", side.who, plural(n, "pod")))
			}
		}
		return "the plans are not for the same pods: " + strings.Join(alone, ", ") + "; their prices do not compare"
	}
	return "karpenter's plan " + d.dearer() + " for the same pods"
}

// dearer says what Karpenter's plan costs next to Kerf's.
func (d Document) dearer() string {
	k, o := d.Kerf.CostPerHour, d.Karpenter.CostPerHour
	switch {
	case math.Abs(o-k) < 0.0005*max(o, k) || o == k:
		return "costs what kerf's does"
	case k <= 0:
		return fmt.Sprintf("costs %.3f $/h more", o)
	case o >= 1.1*k:
		return fmt.Sprintf("costs %.2f times as much as kerf's", o/k)
	case o > k:
		return fmt.Sprintf("costs %.1f %% more than kerf's", 100*(o/k-1))
	}
	return fmt.Sprintf("costs %.1f %% less than kerf's", 100*(1-o/k))
}

// always are requirements that every node of Karpenter's meets, or that say no
// more than the pool's name.
var always = []string{"karpenter.sh/initialized", "karpenter.sh/registered", "karpenter.sh/nodepool", "karpenter.k8s.aws/ec2nodeclass"}

// plainly shortens what Karpenter says of a pod: the pool first, then the
// reason, what was asked, and of the requirements those that decide something.
// JSON has the message whole.
func plainly(said string) string {
	said = strings.TrimSpace(said)
	reason, rest, ok := strings.Cut(said, ", requirements=")
	if !ok {
		return short(said)
	}
	requirements, asked, _ := strings.Cut(rest, ", resources=")
	pool, left := "", []string(nil)
	for _, r := range listed(requirements) {
		key, values, _ := strings.Cut(r, " ")
		if key == "karpenter.sh/nodepool" {
			pool = strings.Trim(strings.TrimPrefix(values, "In "), "[]") + ": "
		}
		if !slices.Contains(always, key) {
			left = append(left, r)
		}
	}
	out := pool + reason + wanting(asked)
	if len(left) > 0 {
		out += " where " + strings.Join(left, ", ")
	}
	return short(out)
}

// listed takes requirements apart at the commas that are in no brackets.
func listed(text string) []string {
	var out []string
	depth, from := 0, 0
	for i, c := range text {
		switch c {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth == 0 {
				out, from = append(out, strings.TrimSpace(text[from:i])), i+1
			}
		}
	}
	return append(out, strings.TrimSpace(text[from:]))
}

// wanting writes resources given as JSON, "" when they are not.
func wanting(text string) string {
	var asked map[string]string
	if json.Unmarshal([]byte(text), &asked) != nil {
		return ""
	}
	var out []string
	for name, amount := range asked {
		if name != "pods" && amount != "0" {
			out = append(out, name+" "+amount)
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.Sort(out)
	return " for " + strings.Join(out, ", ")
}

// short cuts a message that is too long for a screen.
func short(s string) string {
	const most = 220
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return string(r[:most]) + " ..."
}
