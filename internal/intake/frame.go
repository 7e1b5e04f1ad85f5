package intake

import (
	"slices"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/nodepool"
)

// A Frame is what changes seldom in a cluster, read once: pools, what the cloud
// sells, device configs and DaemonSets. Pods and nodes are put into it one at a
// time by whoever watches them, with the same outcome as Load. What it holds does
// not change once it is made, so that what came of a node may be kept as long as
// both node and Frame are. It is not safe for use by several goroutines at once.
type Frame struct{ l *loader }

// FrameOptions complete the documents of a Frame.
type FrameOptions struct {
	Options
	// Book is what the cloud sells now. Overlays are taken to be applied to it.
	Book catalog.Book
	// Sharing and Plugins are the device configs in force, instead of what the
	// documents say of them; nil leaves it at that.
	Sharing *model.Sharing
	Plugins []model.Plugin
	// Consumable says that some pod asks for a part of a GPU.
	Consumable bool
	// Limits are requirements of a pool beyond those that it names.
	Limits map[string][]model.Requirement
	// Closed says by pool why nothing can be bought for it.
	Closed map[string]string
}

// NewFrame reads the documents of pools, node classes, device-plugin
// installations, DaemonSets and what those refer to; it passes over others.
func NewFrame(docs []manifest.Document, o FrameOptions) (*Frame, []model.Note) {
	l := &loader{options: o.Options, leasts: map[string]model.Node{}}
	l.read(l.unique(docs))
	l.types = o.Book
	l.snapshot.Region, l.snapshot.PriceBasis, l.snapshot.Types = o.Book.Region, o.Book.PriceBasis, o.Book.Types
	if o.Sharing != nil {
		l.snapshot.Sharing, l.snapshot.Plugins = *o.Sharing, o.Plugins
	}
	l.snapshot.Sharing.Consumable = l.snapshot.Sharing.Consumable || o.Consumable
	l.autoMode()
	l.narrow(o)
	notes := l.notes
	l.notes = nil
	return &Frame{l: l}, notes
}

// narrow holds pools to what the cloud sells to them.
func (l *loader) narrow(o FrameOptions) {
	pools := slices.Clone(l.snapshot.Pools)
	for i, p := range pools {
		pools[i].Requirements = slices.Concat(p.Requirements, o.Limits[p.Name])
		if why := o.Closed[p.Name]; why != "" {
			pools[i].Unusable = append(slices.Clone(p.Unusable), model.Verdict{Code: model.CodeUnusable, Pool: p.Name, Detail: why})
		}
	}
	l.snapshot.Pools = pools
}

// A Claim is a NodeClaim as nodepool reads it.
type Claim struct {
	Node   model.Node
	Origin nodepool.Origin
}

// ReadClaim reads one NodeClaim; ok is false when the document is none.
func ReadClaim(d manifest.Document) (c Claim, ok bool) {
	r, _ := nodepool.Read([]manifest.Document{d})
	if len(r.Claims) == 0 {
		return Claim{}, false
	}
	return Claim{r.Claims[0], r.Origins[0]}, true
}

// Node completes a node as workload read it. The claim that it came of counts
// where there is one, as long as the node is not all that was ordered.
func (f *Frame) Node(o Options, n model.Node, c *Claim) model.Node {
	l := *f.l
	l.options = o
	l.join(&n)
	if c == nil {
		return n
	}
	if n.Leaving = n.Leaving || c.Node.Leaving; !n.Leaving && l.comes(c.Origin) {
		return l.incoming(n, c.Node, c.Origin)
	}
	return n
}

// Ordered predicts the node that a claim without one will become.
func (f *Frame) Ordered(o Options, c Claim) model.Node {
	l := *f.l
	l.options = o
	l.predict(&c.Node, c.Origin)
	return c.Node
}

// Snapshot puts pods and nodes into the frame. Pods that wait are bound to the
// nodes that were ordered for them. Pods is written to.
func (f *Frame) Snapshot(o Options, pods []model.Pod, nodes []model.Node, claims []Claim) model.Snapshot {
	l := *f.l
	l.options = o
	s := l.snapshot
	s.Now, s.Pods, s.Nodes = o.Now, pods, nodes
	byName := make(map[string]*model.Node, len(nodes))
	for i := range nodes {
		byName[nodes[i].Name] = &nodes[i]
	}
	var origins []nodepool.Origin
	var ordered []model.Node
	for _, c := range claims {
		if len(c.Origin.Pods) > 0 {
			origins, ordered = append(origins, c.Origin), append(ordered, c.Node)
		}
	}
	reserve(s.Pods, byName, l.reserved(byName, origins, ordered))
	return s
}
