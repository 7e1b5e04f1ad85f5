package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/kerfdev/kerf/internal/model"
)

// A stock is a CloudProvider that remembers which offerings turned out to be
// sold out, whether or not the provider behind it does.
type stock struct {
	cloudprovider.CloudProvider
	clock  clock.Clock
	memory time.Duration
	failed func(reason string) // a launch
	// changed, if not nil, is called when an offering turned out to be sold out.
	changed func()

	mu  sync.Mutex
	out map[offer]time.Time // until when
}

// An offer is a type in a zone with a capacity type.
type offer struct{ typ, zone, capacityType string }

func newStock(c cloudprovider.CloudProvider, clk clock.Clock, memory time.Duration, failed func(string)) *stock {
	return &stock{CloudProvider: c, clock: clk, memory: memory, failed: failed, out: map[offer]time.Time{}}
}

// Create launches, and on an InsufficientCapacityError remembers everything
// that the claim would have taken.
func (s *stock) Create(ctx context.Context, claim *karpenter.NodeClaim) (*karpenter.NodeClaim, error) {
	created, err := s.CloudProvider.Create(ctx, claim)
	if err == nil {
		return created, nil
	}
	s.failed(launchFailure(err))
	if cloudprovider.IsInsufficientCapacityError(err) {
		s.remember(claim)
		if s.changed != nil {
			s.changed()
		}
	}
	return created, err
}

// launchFailure names an error of Create for a metric.
func launchFailure(err error) string {
	var create *cloudprovider.CreateError
	switch {
	case cloudprovider.IsInsufficientCapacityError(err):
		return "InsufficientCapacity"
	case cloudprovider.IsNodeClassNotReadyError(err):
		return "NodeClassNotReady"
	case errors.As(err, &create) && create.ConditionReason != "":
		return create.ConditionReason
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "Interrupted"
	}
	return "LaunchFailed"
}

func (s *stock) remember(claim *karpenter.NodeClaim) {
	types, zones, kinds := asked(claim, model.LabelInstanceType), asked(claim, model.LabelZone), asked(claim, model.LabelCapacityType)
	if len(zones) == 0 {
		zones = []string{""}
	}
	if len(kinds) == 0 {
		kinds = []string{""}
	}
	until := s.clock.Now().Add(s.memory)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range types {
		for _, z := range zones {
			for _, k := range kinds {
				s.out[offer{t, z, k}] = until
			}
		}
	}
}

// asked are the values of a claim's requirement of kind In.
func asked(claim *karpenter.NodeClaim, key string) []string {
	for i := range claim.Spec.Requirements {
		if r := &claim.Spec.Requirements[i]; r.Key == key && string(r.Operator) == string(model.In) {
			return r.Values
		}
	}
	return nil
}

// soldOut lists the offerings that are not to be counted on, and forgets those
// whose time is over. next is when the first of them may be tried again.
func (s *stock) soldOut() (out []offer, next time.Time) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for o, until := range s.out {
		if !now.Before(until) {
			delete(s.out, o)
			continue
		}
		out = append(out, o)
		if next.IsZero() || until.Before(next) {
			next = until
		}
	}
	slices.SortFunc(out, func(a, b offer) int {
		return strings.Compare(a.typ+"/"+a.zone+"/"+a.capacityType, b.typ+"/"+b.zone+"/"+b.capacityType)
	})
	return out, next
}
