package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Caps that keep a report of thousands of nodes on a page or two.
const (
	maxKinds    = 12
	maxFillings = 6
	maxLines    = 36 // of fillings, all kinds together
)

// kinds draws nodes, each kind a head line and a line per filling.
func (p *page) kinds(f fleet, kinds []kind) {
	shown, limit := kinds, maxFillings
	if !p.Wide {
		shown = dearest(kinds, maxKinds)
		limit = max(1, min(maxFillings, maxLines/max(len(shown), 1)))
	}
	lists := make([][]filling, len(shown))
	var all []filling
	for i, k := range shown {
		lists[i] = p.visible(k.fillings, limit)
		all = append(all, lists[i]...)
	}
	c := p.columns(all)
	for i, k := range shown {
		p.line()
		p.kindHead(k, i > 0 && shown[i-1].pool == k.pool)
		for _, n := range lists[i] {
			p.filling(f, n, c)
		}
		if !p.Wide && len(lists[i]) < len(k.fillings) {
			p.para("    "+p.say("… "), hiddenText(k, len(lists[i])))
		}
	}
	if rest := len(kinds) - len(shown); rest > 0 {
		t := beyond(kinds, shown)
		p.line()
		p.split("  "+p.say(fmt.Sprintf("and %s more: %s", count(rest, "kind"), sum(t))), p.say(hourly(t.cost)+" $/h"))
		p.line("  ", p.paint(dim, "--wide shows every node"))
	}
}

// beyond tallies the kinds that are not among those shown.
func beyond(kinds, shown []kind) tally {
	var t tally
	for _, k := range kinds {
		if !slices.ContainsFunc(shown, func(o kind) bool { return o.same(k) }) {
			t.plus(k.tally)
		}
	}
	return t
}

func (k kind) same(o kind) bool {
	return k.pool == o.pool && k.typ == o.typ && k.capacityType == o.capacityType && k.price == o.price && k.estimated == o.estimated
}

// dearest keeps the n kinds that cost the most, or hold the most nodes where
// prices are unknown, in their order.
func dearest(kinds []kind, n int) []kind {
	if len(kinds) <= n {
		return kinds
	}
	order := slices.Clone(kinds)
	slices.SortStableFunc(order, func(a, b kind) int {
		return cmp.Or(cmp.Compare(b.cost, a.cost), cmp.Compare(b.nodes, a.nodes))
	})
	keep := order[:n]
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool {
		return !slices.ContainsFunc(keep, func(o kind) bool { return o.same(k) })
	})
}

// kindHead names pool, number, type and price: "gpu  3 × g4dn.xlarge  spot  us-east-1a|b".
func (p *page) kindHead(k kind, again bool) {
	pool := k.pool
	if pool == "" {
		pool = "(no pool)"
	}
	name := p.paint(bold, p.paint(cyan, pad(pool, 14)))
	if again {
		name = pad(pool, 14)
	}
	left := fmt.Sprintf("  %s %s × %s", name, number(k.nodes), k.typ)
	if k.capacityType != "" {
		left += "  " + k.capacityType
	}
	if z := strings.Join(k.zones, ", "); len(k.zones) <= 3 && z != "" {
		left += "  " + z
	} else if len(k.zones) > 3 {
		left += fmt.Sprintf("  %d sets of zones", len(k.zones))
	}
	right := ""
	if k.price > 0 {
		right = hourly(k.price) + " $/h"
		if k.nodes > 1 {
			right += " each"
		}
	}
	config := ""
	if len(k.configs) > 0 {
		config = "config " + strings.Join(k.configs, ", ")
	}
	left, right = p.clip(p.say(left), p.Width), p.say(right)
	if config == "" || wide(left)+wide(config)+wide(right)+4 <= min(p.Width, textWidth) {
		p.split(left+"  "+p.paint(dim, config), right)
		return
	}
	p.split(left, right)
	p.line(strings.Repeat(" ", 17), p.paint(dim, config))
}

// visible keeps the first fillings, one more than limit rather than a line that
// says that there is one more.
func (p *page) visible(list []filling, limit int) []filling {
	if p.Wide {
		return unfold(list)
	}
	if len(list) > limit+1 {
		return list[:limit]
	}
	return list
}

// hiddenText sums up the fillings of a kind from the n-th on.
func hiddenText(k kind, n int) string {
	var rest tally
	for _, n := range k.fillings[n:] {
		for range n.count {
			rest.plus(n.tally(k))
		}
	}
	ways := fmt.Sprintf("filled in %d other ways", len(k.fillings)-n)
	if rest.nodes == len(k.fillings)-n {
		ways = "each filled differently"
	}
	return fmt.Sprintf("%s, %s: %s", count(rest.nodes, "more node"), ways, sum(rest))
}

// sum says how full some nodes are together.
func sum(t tally) string {
	s := ""
	if t.gpus > 0 {
		s = fmt.Sprintf("%s/%s %s, ", number(t.used), number(t.slices), unitOf(t.sliced))
	}
	return s + "cpu " + percent(t.cpu.used, t.cpu.total) + ", mem " + percent(t.mem.used, t.mem.total)
}

func unitOf(sliced bool) string {
	if sliced {
		return "slices"
	}
	return "GPUs"
}

// unfold gives every node a filling of its own.
func unfold(list []filling) []filling {
	var out []filling
	for _, n := range list {
		for i := range n.count {
			one := n
			one.count = 1
			if i < len(n.names) {
				one.names = n.names[i : i+1]
			}
			out = append(out, one)
		}
	}
	return out
}

// Columns of the lines of a section.
type columns struct {
	count, gpu, cells, ratio, cpu, mem int
	bar                                int  // cells of the bars of cpu and memory; 0 = no bars
	inline                             bool // pods on the same line
}

// columns chooses widths that fit the page: long bars first, then shorter ones,
// then none.
func (p *page) columns(list []filling) columns {
	var c columns
	slots := 0
	for _, n := range list {
		c.count = max(c.count, n.count)
		c.gpu = max(c.gpu, wide(p.say(n.gpuLabel())))
		slots = max(slots, n.slots())
		c.ratio = max(c.ratio, len(n.ratio()))
		c.cpu = max(c.cpu, len(ratioText(n.cpu, cores)))
		c.mem = max(c.mem, len(ratioText(n.mem, gib)))
	}
	c.inline = p.Width >= 120
	room := p.Width
	if c.inline {
		room -= 40 // for the pods
	}
	for _, c.bar = range []int{10, 5, 3, 0} {
		c.cells = min(slots, 16, c.bar+5)
		if c.width() <= room {
			break
		}
	}
	return c
}

// width is how wide a line comes out without its pods.
func (c columns) width() int {
	w := len("    cpu    mem  GiB") + c.cpu + c.mem
	if c.bar > 0 {
		w += 2 * (c.bar + 3)
	}
	if c.gpu > 0 {
		w += c.gpu + c.cells + c.ratio + 7
	}
	if c.count > 1 {
		w += 4
	}
	return w
}

func (n filling) ratio() string {
	if len(n.gpus) == 0 {
		return ""
	}
	if n.consumable() {
		part, whole := n.shared()
		return fmt.Sprintf("%.1f/%d", float64(part)/1000, whole/1000)
	}
	return fmt.Sprintf("%d/%d", n.taken(), n.slots())
}

func ratioText(u use, unit func(int64) string) string { return unit(u.used) + "/" + unit(u.total) }

// filling draws one line: GPUs, cpu, memory, pods.
func (p *page) filling(f fleet, n filling, c columns) {
	head := "    "
	if c.count > 1 {
		head += p.say(padLeft(fmt.Sprintf("%d ×", n.count), len(fmt.Sprint(c.count))+2)) + " "
	}
	switch {
	case len(n.gpus) > 0:
		head += pad(p.say(n.gpuLabel()), c.gpu) + " " + p.gpuBar(n, c) + " " + padLeft(n.ratio(), c.ratio) + "   "
	case c.gpu > 0:
		head += strings.Repeat(" ", c.gpu+c.cells+c.ratio+7)
	}
	head += "cpu " + p.gauge(n.cpu, c) + padLeft(ratioText(n.cpu, cores), c.cpu)
	head += "   mem " + p.gauge(n.mem, c) + padLeft(ratioText(n.mem, gib), c.mem) + " GiB"
	room := p.Width - wide(head) - 3
	text := p.contents(f, n, p.Width-6)
	if c.inline && (wide(text) <= room || room >= 60) {
		p.line(head, "   ", p.contents(f, n, room))
	} else {
		p.line(head)
		p.line("      ", text)
	}
	if kinds := n.byResource(); len(kinds) > 1 {
		p.para("      ", strings.Join(kinds, " · "))
	}
}

func (p *page) gauge(u use, c columns) string {
	if c.bar == 0 {
		return ""
	}
	return p.bar(u.used, u.total, c.bar, green) + " "
}

// byResource counts slices by what they are called: "mig-1g.5gb 10/16".
func (n filling) byResource() []string {
	used, all := map[string]int{}, map[string]int{}
	for _, g := range n.gpus {
		for _, s := range g.slices {
			all[s.resource]++
			if s.workload != free {
				used[s.resource]++
			}
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, fmt.Sprintf("%s %d/%d", shortResource(name), used[name], all[name]))
	}
	return out
}

// gpuBar draws a cell for every slice of a node while they fit, else a bar.
func (p *page) gpuBar(n filling, c columns) string {
	slots := n.slots()
	if slots == 0 {
		return strings.Repeat(" ", c.cells+2)
	}
	if slots <= c.cells && !n.consumable() {
		return p.cells(n.taken(), slots, cyan) + strings.Repeat(" ", c.cells-slots)
	}
	part, whole := n.taken(), slots
	if n.consumable() {
		part, whole = n.shared()
	}
	return p.bar(int64(part), int64(whole), c.cells, cyan)
}

// consumable says whether a node's GPUs are shared by amounts.
func (n filling) consumable() bool {
	return slices.ContainsFunc(n.gpus, func(g gpu) bool { return g.consumable })
}

// shared is how much of the GPUs is taken, in thousandths.
func (n filling) shared() (part, whole int) {
	for _, g := range n.gpus {
		whole += 1000
		for _, s := range g.shares {
			part += int(s.part * 1000)
		}
	}
	return part, whole
}

// contents names the pods in a node, as many as room allows.
func (p *page) contents(f fleet, n filling, room int) string {
	var b strings.Builder
	if len(n.names) == 1 {
		b.WriteString(n.names[0] + ": ")
	}
	if n.unready != "" {
		b.WriteString("(" + n.unready + ") ")
	}
	if len(n.tenants) == 0 {
		b.WriteString("empty")
	}
	for i, t := range n.tenants {
		name := f.workloads[t.workload].name
		if t.count > 1 || f.workloads[t.workload].pods > 1 {
			name += fmt.Sprintf(" ×%d", t.count)
		}
		sep := ""
		if i > 0 {
			sep = ", "
		}
		more := fmt.Sprintf(", … %d more", podsOf(n.tenants[i:]))
		if i > 0 && !p.Wide && wide(b.String())+wide(sep+name)+wide(more) > room && i < len(n.tenants)-1 {
			b.WriteString(more)
			break
		}
		b.WriteString(sep + name)
	}
	if p.Wide {
		return p.say(b.String())
	}
	return p.clip(p.say(b.String()), room)
}

func podsOf(list []tenant) int {
	n := 0
	for _, t := range list {
		n += t.count
	}
	return n
}
