package review

import (
	"context"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

// A Cluster is what the guard asks about the cluster beyond the object under
// review. Its methods are called from many reviews at once.
type Cluster interface {
	// Facts are those of a pod's namespace, of its runtime class and of the
	// ConfigMaps that its containers take variables from. An error means that they
	// could not be had now; what does not exist is no error.
	Facts(ctx context.Context, p *guard.Pod) (*guard.Facts, error)
	// Taints are those that the nodes of a NodePool have, nil when there is no
	// such pool.
	Taints(ctx context.Context, pool string) ([]model.Taint, error)
	// AddsTolerations reports whether the API server adds tolerations for
	// extended resources itself.
	AddsTolerations() bool
}

// A Guard judges and repairs objects. It holds no state of its own.
type Guard struct {
	Cluster    Cluster
	Exemptions guard.Exemptions
	// Count is told of every verdict, for metrics: "allowed", "repaired",
	// "denied" or "failed", with the rules of the findings. Nil counts nothing.
	Count func(verdict string, found []guard.Finding)
}

// Validate answers a review with a verdict: the object is denied when a rule of
// severity error is newly broken, and carries a warning or an audit annotation
// for each other finding. Templates of pods are only ever warned of. The body is
// not held on to.
func (g *Guard) Validate(ctx context.Context, body []byte) (answer []byte) {
	return g.answer(ctx, body, g.validate)
}

// Mutate answers a review with repairs: of a pod at its creation, and of debug
// containers as they are added. It denies nothing that can be read; whatever it
// leaves alone is for Validate to judge. The body is not held on to.
func (g *Guard) Mutate(ctx context.Context, body []byte) (answer []byte) {
	return g.answer(ctx, body, g.mutate)
}

// Refuse answers a review that cannot be judged, with a status code of HTTP. The
// body may be only the start of the review.
func (g *Guard) Refuse(body []byte, code int, err error) (answer []byte) {
	g.count("failed", nil)
	return encode(uidOf(body), failure(code, err))
}

func (g *Guard) answer(ctx context.Context, body []byte, judge func(context.Context, *request) (response, error)) []byte {
	r, err := read(body)
	if err != nil {
		return g.Refuse(body, badRequest, err)
	}
	out, err := judge(ctx, r)
	if err != nil {
		g.count("failed", nil)
		out = failure(codeOf(err), err)
	}
	return encode(r.uid, out)
}

func (g *Guard) count(verdict string, found []guard.Finding) {
	if g.Count != nil {
		g.Count(verdict, found)
	}
}
