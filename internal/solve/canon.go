package solve

import (
	"maps"
	"slices"
	"strconv"

	"github.com/kerfdev/kerf/internal/model"
)

// canon writes what decides a pod's place as text, so that equal text means
// interchangeable pods. Labels and namespaces count only as far as some
// selector in the Snapshot reads them.
type canon struct {
	labels    []string // keys that selectors read, sorted
	namespace bool     // some term or constraint looks at namespaces
	buf       []byte
}

func newCanon(s *model.Snapshot) canon {
	var c canon
	read := map[string]bool{}
	seen := map[*model.PodSpec]bool{}
	for i := range s.Pods {
		spec := s.Pods[i].Spec
		if spec == nil || seen[spec] {
			continue
		}
		seen[spec] = true
		for j := range spec.PodAffinity {
			c.namespace = true
			keysOf(read, spec.PodAffinity[j].Selector)
		}
		for j := range spec.Spread {
			c.namespace = true
			keysOf(read, spec.Spread[j].Selector)
		}
	}
	c.labels = slices.Sorted(maps.Keys(read))
	return c
}

func keysOf(into map[string]bool, sel model.Selector) {
	for i := range sel.Term {
		into[sel.Term[i].Key] = true
	}
}

func (c *canon) key(namespace string, spec *model.PodSpec) string {
	c.buf = c.buf[:0]
	if c.namespace {
		c.text(namespace)
		for _, k := range c.labels {
			if v, ok := spec.Labels[k]; ok {
				c.text(k)
				c.text(v)
			}
		}
	}
	c.mark('r')
	c.amounts(spec.Requests)
	for i := range spec.Containers {
		c.container(&spec.Containers[i])
	}
	c.mark('n')
	c.table(spec.NodeSelector)
	c.terms(spec.NodeAffinity)
	c.mark('p')
	for i := range spec.NodePreferred {
		c.number(int64(spec.NodePreferred[i].Weight))
		c.term(spec.NodePreferred[i].Term)
	}
	c.topology(spec)
	c.rest(spec)
	return string(c.buf)
}

// container writes the extended resources only; the pod's total holds the rest.
func (c *canon) container(k *model.Container) {
	for _, r := range []model.Resources{k.Requests, k.Limits} {
		for name, v := range r {
			if extended(name) && v > 1 {
				c.mark('c')
				c.amounts(k.Requests)
				c.amounts(k.Limits)
				return
			}
		}
	}
}

func (c *canon) topology(spec *model.PodSpec) {
	c.mark('a')
	for i := range spec.PodAffinity {
		t := &spec.PodAffinity[i]
		c.flags(t.Anti)
		c.number(int64(t.Weight))
		c.text(t.TopologyKey)
		c.list(t.Namespaces)
		c.selector(t.Selector)
	}
	c.mark('s')
	for i := range spec.Spread {
		t := &spec.Spread[i]
		c.flags(t.Soft, t.IgnoreAffinity, t.HonorTaints)
		c.number(int64(t.MaxSkew))
		c.number(int64(t.MinDomains))
		c.text(t.TopologyKey)
		c.text(t.SelectorNamespace)
		c.selector(t.Selector)
	}
}

func (c *canon) rest(spec *model.PodSpec) {
	c.mark('t')
	for _, t := range spec.Tolerations {
		c.text(t.Key)
		c.text(t.Operator)
		c.text(t.Value)
		c.text(t.Effect)
		c.flags(t.Assumed)
	}
	c.mark('h')
	for _, p := range spec.HostPorts {
		c.text(p.IP)
		c.number(int64(p.Port))
		c.text(p.Protocol)
	}
	c.mark('v')
	for _, v := range spec.Volumes {
		if len(v.Terms) > 0 {
			c.terms(v.Terms)
		}
	}
	c.mark('d')
	for _, d := range spec.Shares {
		c.text(d.Resource)
		c.number(d.Count)
		c.amounts(d.PerDevice)
	}
	c.mark('x')
	c.number(int64(spec.Priority))
	c.text(spec.SchedulerName)
	c.list(spec.Gates)
	c.list(spec.Claims)
	for _, v := range spec.Refused {
		c.text(string(v.Code))
		c.text(v.Key)
		c.list(v.Wanted)
		c.list(v.Offered)
		c.number(v.Asked)
		c.number(v.Have)
		c.number(v.Used)
		c.text(v.Detail)
	}
}

func (c *canon) mark(b byte) { c.buf = append(c.buf, 0, b) }

// text writes s so that no other sequence of texts reads the same.
func (c *canon) text(s string) {
	c.buf = strconv.AppendInt(c.buf, int64(len(s)), 10)
	c.buf = append(c.buf, ':')
	c.buf = append(c.buf, s...)
}

func (c *canon) number(n int64) {
	c.buf = strconv.AppendInt(c.buf, n, 10)
	c.buf = append(c.buf, ' ')
}

func (c *canon) flags(fs ...bool) {
	for _, f := range fs {
		if f {
			c.buf = append(c.buf, '+')
		} else {
			c.buf = append(c.buf, '-')
		}
	}
}

func (c *canon) list(l []string) {
	c.number(int64(len(l)))
	for _, s := range l {
		c.text(s)
	}
}

func (c *canon) amounts(r model.Resources) {
	var few [8]string
	names := few[:0]
	for name := range r {
		names = append(names, name)
	}
	slices.Sort(names)
	c.number(int64(len(names)))
	for _, name := range names {
		c.text(name)
		c.number(r[name])
	}
}

func (c *canon) table(m map[string]string) {
	var few [8]string
	keys := few[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	c.number(int64(len(keys)))
	for _, k := range keys {
		c.text(k)
		c.text(m[k])
	}
}

func (c *canon) selector(s model.Selector) {
	c.flags(s.All)
	c.term(s.Term)
}

func (c *canon) terms(ts []model.Term) {
	c.number(int64(len(ts)))
	for _, t := range ts {
		c.term(t)
	}
}

func (c *canon) term(t model.Term) {
	c.number(int64(len(t)))
	for i := range t {
		c.text(t[i].Key)
		c.text(string(t[i].Operator))
		c.list(t[i].Values)
	}
}
