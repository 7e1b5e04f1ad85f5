package demo

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/lab/world"
)

// A Screen is what can be shown.
type Screen struct {
	Terminal bool // the table is drawn over and over in one place
	Width    int  // columns; 0 is 100
	Colour   bool
}

// A show is what the watcher sees: on a terminal a table that is redrawn, else
// the timeline line by line.
type show struct {
	out    io.Writer
	screen Screen
	world  *world.World
	start  time.Time

	mu     sync.Mutex
	title  string
	recent []string // last lines of the timeline
	drawn  int      // lines of the table that are on the screen
	over   bool     // the summary was given
}

func newShow(c Config) *show {
	if c.Screen.Width <= 0 {
		c.Screen.Width = 100
	}
	return &show{out: c.Out, screen: c.Screen, start: time.Now()}
}

// rows of the timeline are kept below the table.
const rows = 6

// line takes a line of the timeline.
func (s *show) line(text string) {
	if strings.Contains(text, "  pod       ") || strings.Contains(text, "Nominated: ") || strings.Contains(text, "DisruptionBlocked") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	if s.recent = append(s.recent, text); len(s.recent) > rows {
		s.recent = s.recent[1:]
	}
	if !s.screen.Terminal {
		fmt.Fprintln(s.out, cut(text, s.screen.Width))
	}
}

// act begins a part of the demo.
func (s *show) act(title string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawn = 0 // what was drawn stays
	s.title = title
	fmt.Fprintf(s.out, "\n  %s\n\n", title)
}

// beat is the pause between two drawings.
const beat = 400 * time.Millisecond

// until draws until something is done. The error names what was left to do.
func (s *show) until(ctx context.Context, done func() (left string, done bool)) error {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		left, ready := done()
		s.draw(left)
		if ready {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the demo was ended: %s: %w", left, ctx.Err())
		}
	}
}

// pause draws for a while.
func (s *show) pause(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	return s.until(ctx, func() (string, bool) { return "", time.Now().After(end) })
}

// A fleetNode is a row of the table.
type fleetNode struct {
	name, pool, kind, capacity, state string
	used, gpus                        int64
	price                             float64
}

// fleet lists the nodes, in the order of their launch.
func (s *show) fleet() []fleetNode {
	ctx := context.Background() // the cache answers from memory
	used := s.used(ctx)
	nodes := map[string]*corev1.Node{}
	if list, err := s.world.Nodes(ctx); err == nil {
		for i := range list {
			nodes[list[i].Name] = &list[i]
		}
	}
	var out []fleetNode
	for _, i := range s.world.Cloud.Instances() {
		row := fleetNode{name: i.Node, pool: i.Pool, kind: i.Type, capacity: i.CapacityType, price: i.Price, state: "booting", used: used[i.Node]}
		if n := nodes[i.Node]; n != nil {
			for name, q := range n.Status.Allocatable {
				if strings.HasPrefix(string(name), model.NvidiaGPU) {
					row.gpus += q.Value()
				}
			}
			row.state = state(n, row.gpus)
		}
		if i.State != cloud.Running {
			row.state = "terminating"
		}
		out = append(out, row)
	}
	return out
}

// used adds up the GPUs and slices that pods have on each node.
func (s *show) used(ctx context.Context) map[string]int64 {
	out := map[string]int64{}
	pods, err := s.world.Pods(ctx, "")
	if err != nil {
		return out
	}
	for i := range pods {
		p := &pods[i]
		if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, c := range p.Spec.Containers {
			q := c.Resources.Limits[model.NvidiaGPU]
			out[p.Spec.NodeName] += q.Value()
		}
	}
	return out
}

// state is how far a node is.
func state(n *corev1.Node, gpus int64) string {
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	draining := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpenter.DisruptedTaintKey })
	switch {
	case draining || !n.DeletionTimestamp.IsZero():
		return "draining"
	case !ready:
		return "registered"
	case gpus == 0:
		return "GPUs to come"
	}
	return "ready"
}

// A tally is the fleet in figures.
type tally struct {
	nodes, pods int
	gpus, used  int64
	price       float64
}

func (s *show) tally() tally {
	var out tally
	for _, n := range s.fleet() {
		out.nodes, out.gpus, out.used, out.price = out.nodes+1, out.gpus+n.gpus, out.used+n.used, out.price+n.price
	}
	if pods, err := s.world.Pods(context.Background(), ""); err == nil {
		for i := range pods {
			if pods[i].Status.Phase == corev1.PodRunning {
				out.pods++
			}
		}
	}
	return out
}
