package solve

import (
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

// relation is what a rule demands.
type relation int

const (
	spread relation = iota // topology spread, DoNotSchedule
	near                   // pod affinity, required
	apart                  // pod anti-affinity, required
)

// A rule relates a shape to the pods that a selector picks, by the domains of
// one topology key.
type rule struct {
	relation   relation
	crowd      int
	self       bool // the selector picks the shape itself
	maxSkew    int
	minDomains int
	spread     *model.Spread
}

// A crowd is the pods that some selector picks, counted by one topology key.
type crowd struct {
	key     string
	words   []string // what the selector asks of a pod
	members []bool   // by shape
}

// A topology knows all rules and crowds of a Snapshot's shapes.
type topology struct {
	crowds []crowd
	rules  [][]rule // by shape
	in     [][]int  // by shape: crowds that it is of
	ids    map[string]int
	canon  canon
}

func newTopology(g *group, specs []*model.PodSpec) *topology {
	t := &topology{rules: make([][]rule, len(specs)), in: make([][]int, len(specs)), ids: map[string]int{}}
	for s, spec := range specs {
		for i := range spec.Spread {
			c := &spec.Spread[i]
			if !c.Soft && len(g.shapes[s].pods) > 0 {
				t.add(g, s, rule{relation: spread, maxSkew: max(int(c.MaxSkew), 1), minDomains: int(c.MinDomains), spread: c},
					c.TopologyKey, []string{c.SelectorNamespace}, c.Selector)
			}
		}
		for i := range spec.PodAffinity {
			c := &spec.PodAffinity[i]
			switch {
			case c.Weight != 0:
			case c.Anti:
				t.add(g, s, rule{relation: apart}, c.TopologyKey, c.Namespaces, c.Selector)
			case len(g.shapes[s].pods) > 0:
				t.add(g, s, rule{relation: near}, c.TopologyKey, c.Namespaces, c.Selector)
			}
		}
	}
	for c := range t.crowds {
		for s, is := range t.crowds[c].members {
			if is {
				t.in[s] = append(t.in[s], c)
			}
		}
	}
	return t
}

func (t *topology) add(g *group, s int, r rule, key string, namespaces []string, sel model.Selector) {
	t.canon.buf = t.canon.buf[:0]
	t.canon.text(key)
	t.canon.list(namespaces)
	t.canon.selector(sel)
	id, ok := t.ids[string(t.canon.buf)]
	if !ok {
		id = len(t.crowds)
		t.ids[string(t.canon.buf)] = id
		c := crowd{key: constraint.Normalize(key), words: selectorWords(sel), members: make([]bool, len(g.shapes))}
		for i := range g.shapes {
			c.members[i] = slices.Contains(namespaces, g.shapes[i].namespace) && constraint.MatchSelector(sel, g.shapes[i].spec.Labels)
		}
		t.crowds = append(t.crowds, c)
	}
	r.crowd = id
	r.self = t.crowds[id].members[s]
	t.rules[s] = append(t.rules[s], r)
}

// selectorWords writes a selector as people do: app=web.
func selectorWords(sel model.Selector) []string {
	var out []string
	for _, r := range sel.Term {
		switch r.Operator {
		case model.In:
			out = append(out, r.Key+"="+strings.Join(r.Values, "|"))
		case model.NotIn:
			out = append(out, r.Key+"!="+strings.Join(r.Values, "|"))
		case model.DoesNotExist:
			out = append(out, "!"+r.Key)
		default:
			out = append(out, r.Key)
		}
	}
	return out
}

// A tally counts the pods of each crowd, and the pods that keep apart from it,
// by domain.
type tally struct {
	count []map[string]int // by crowd, then by domain
	apart []map[string]int
	watch []map[string][]watcher
}

// A watcher is a spread rule of pods that were placed in a domain: whoever else
// its crowd takes in must not tip it over.
type watcher struct {
	rule     rule
	eligible []string
}

func newTally(crowds int) *tally {
	t := &tally{count: make([]map[string]int, crowds), apart: make([]map[string]int, crowds), watch: make([]map[string][]watcher, crowds)}
	for i := range crowds {
		t.count[i], t.apart[i], t.watch[i] = map[string]int{}, map[string]int{}, map[string][]watcher{}
	}
	return t
}

// keep notes that pods of a shape are in the domains that value names and that
// their spread rules go on holding there.
func (t *tally) keep(top *topology, s int, value func(key string) string, eligible [][]string) {
	for i, r := range top.rules[s] {
		if v := value(top.crowds[r.crowd].key); r.relation == spread && v != "" {
			w := watcher{rule: r, eligible: eligible[i]}
			w.rule.self = true
			t.watch[r.crowd][v] = append(t.watch[r.crowd][v], w)
		}
	}
}

// note counts n pods of a shape in the domains that value names by key; nodes
// without a key's label are in none of its domains.
func (t *tally) note(top *topology, s, n int, value func(key string) string) {
	for _, c := range top.in[s] {
		if v := value(top.crowds[c].key); v != "" {
			t.count[c][v] += n
		}
	}
	for _, r := range top.rules[s] {
		if r.relation == apart {
			if v := value(top.crowds[r.crowd].key); v != "" {
				t.apart[r.crowd][v] += n
			}
		}
	}
}

// allows reports whether one more pod of a shape may go to the domains that
// value names, and else which rule says no; a rule's index of -1 is another
// pod's wish to be apart. Rules by host are for hosts.
func (t *tally) allows(top *topology, s int, value func(key string) string, eligible [][]string) (failed int, ok bool) {
	for i, r := range top.rules[s] {
		key := top.crowds[r.crowd].key
		if key == model.LabelHostname {
			continue
		}
		if !t.meets(r, value(key), eligible[i]) {
			return i, false
		}
	}
	for _, c := range top.in[s] {
		key := top.crowds[c].key
		if key == model.LabelHostname {
			continue
		}
		if t.apart[c][value(key)] > 0 {
			return -1, false
		}
		for _, w := range t.watch[c][value(key)] {
			if !t.meets(w.rule, value(key), w.eligible) {
				return -1, false
			}
		}
	}
	return 0, true
}

func (t *tally) meets(r rule, domain string, eligible []string) bool {
	counts := t.count[r.crowd]
	switch r.relation {
	case apart:
		return domain == "" || counts[domain] == 0
	case near:
		return domain != "" && constraint.AffinityOK(counts, domain, r.self)
	}
	if domain == "" {
		return false
	}
	least := 0
	for i, v := range eligible {
		if i == 0 || counts[v] < least {
			least = counts[v]
		}
	}
	if len(eligible) < r.minDomains {
		least = 0
	}
	n := counts[domain]
	if r.self {
		n++
	}
	return n-least <= r.maxSkew
}
