package render

import (
	"fmt"
	"strings"

	"github.com/kerfdev/kerf/internal/explain"
)

// unplaced writes per cause what was asked, and per pool and node why not.
func (p *page) unplaced(r Report) {
	causes := explain.Group(r.Snapshot, r.Plan.Unplaced)
	if len(causes) == 0 {
		return
	}
	n := 0
	for _, c := range causes {
		n += c.Count
	}
	p.line()
	p.line("  ", p.paint(bold, p.paint(red, "not placed")), fmt.Sprintf(": %s of %s", number(n), count(len(r.Snapshot.Pods), "pod")))
	for i, c := range causes {
		if i == maxCauses && !p.Wide {
			p.line("  ", p.paint(dim, p.say(fmt.Sprintf("… and %s for other reasons; --wide shows them", count(left(causes[i:]), "more pod")))))
			return
		}
		p.cause(c)
	}
}

const (
	maxCauses  = 12
	maxOwners  = 4
	maxReasons = 12
)

func left(causes []explain.Cause) int {
	n := 0
	for _, c := range causes {
		n += c.Count
	}
	return n
}

func (p *page) cause(c explain.Cause) {
	p.line()
	who := p.owners(c)
	if c.Asks != "" && wide(who)+wide(c.Asks)+5 <= p.Width {
		p.line("  ", p.paint(bold, who), "   ", p.paint(dim, p.say(c.Asks)))
	} else {
		p.para("  ", who)
		p.para("    ", c.Asks)
	}
	shown := c.Reasons
	if !p.Wide && len(shown) > maxReasons+1 {
		shown = shown[:maxReasons]
	}
	col := 10
	for _, x := range shown {
		col = max(col, min(wide(p.spot(x)), 26))
	}
	for _, x := range shown {
		p.reason(x, col)
	}
	if n := len(c.Reasons) - len(shown); n > 0 {
		p.line("    ", p.paint(dim, p.say(fmt.Sprintf("… and %s; --wide shows them", count(n, "more reason")))))
	}
}

// owners names the workloads of a cause: "team-a/trainer ×2, web".
func (p *page) owners(c explain.Cause) string {
	var parts []string
	for i, o := range c.Owners {
		if i == maxOwners && !p.Wide && len(c.Owners) > maxOwners+1 {
			parts = append(parts, fmt.Sprintf("… %d more", len(c.Owners)-i))
			break
		}
		name := shortOwner(o.Name)
		if len(o.Pods) > 1 {
			name += fmt.Sprintf(" ×%d", len(o.Pods))
		}
		parts = append(parts, name)
	}
	return p.say(strings.Join(parts, ", "))
}

// shortOwner drops the kind and the namespace default.
func shortOwner(name string) string {
	if _, rest, ok := strings.Cut(name, " "); ok {
		name = rest
	}
	return strings.TrimPrefix(name, "default/")
}

// spot names where a reason holds.
func (p *page) spot(x explain.Reason) string {
	const some = 3
	switch {
	case len(x.Pools)+len(x.Nodes) == 0:
		return "anywhere"
	case len(x.Nodes) == 0:
		return p.say(first(x.Pools, some))
	case len(x.Pools) == 0 && len(x.Nodes) == 1:
		return "node " + x.Nodes[0]
	case len(x.Pools) == 0:
		return count(len(x.Nodes), "node")
	}
	return p.say(first(x.Pools, some)) + " and " + count(len(x.Nodes), "node")
}

func first(names []string, n int) string {
	if len(names) <= n+1 {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:n], ", ") + fmt.Sprintf(", … %d more", len(names)-n)
}

func (p *page) reason(x explain.Reason, col int) {
	spot := p.spot(x)
	head := "    " + pad(p.paint(cyan, spot), col) + "  "
	if wide(spot) > col || p.Width < 70 {
		p.para("    ", spot)
		head = "      "
	}
	p.para(head, x.Text)
	for _, fix := range x.Fixes {
		p.fix(wide(head), fix)
	}
}
