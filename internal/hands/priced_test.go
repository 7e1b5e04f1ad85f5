package hands

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/kerfdev/kerf/internal/model"
)

// method is a disruption method with fixed answers, one for the first candidate
// of each call.
type method struct {
	disruption.Method
	reason  karpenter.DisruptionReason
	answers map[string]disruption.Command // by candidate
	asked   int
}

func (m *method) Reason() karpenter.DisruptionReason { return m.reason }

func (m *method) ComputeCommands(_ context.Context, _ map[string]int, candidates ...*disruption.Candidate) ([]disruption.Command, error) {
	m.asked++
	for _, c := range candidates {
		if cmd, ok := m.answers[c.Name()]; ok {
			return []disruption.Command{cmd}, nil
		}
	}
	return nil, nil
}

// candidate is a node of a type that costs so much.
func candidate(name, kind string, price float64, requirements ...karpenter.NodeSelectorRequirementWithMinValues) *disruption.Candidate {
	n, c := node(nil), claim()
	n.Name, n.Labels = name, map[string]string{model.LabelInstanceType: kind, model.LabelHostname: name, karpenter.NodeRegisteredLabelKey: "true"}
	pool := &karpenter.NodePool{}
	pool.Spec.Template.Spec.Requirements = requirements
	return &disruption.Candidate{StateNode: &state.StateNode{Node: n, NodeClaim: c}, NodePool: pool, Price: price}
}

// replacement offers types for pods of a node.
func replacement(from string, types ...*cloudprovider.InstanceType) *disruption.Replacement {
	out := &disruption.Replacement{NodeClaim: &scheduling.NodeClaim{}}
	out.InstanceTypeOptions = types
	out.Requirements = requirements.NewRequirements(
		requirements.NewRequirement(karpenter.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, model.Spot, model.OnDemand))
	out.Pods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: from}}}
	return out
}

// offer is a type with its prices on demand and, unless 0, as spot.
func offer(name string, onDemand, spot float64) *cloudprovider.InstanceType {
	out := &cloudprovider.InstanceType{Name: name}
	for kind, price := range map[string]float64{model.OnDemand: onDemand, model.Spot: spot} {
		if price > 0 {
			out.Offerings = append(out.Offerings, &cloudprovider.Offering{Price: price, Available: true, Requirements: requirements.NewRequirements(
				requirements.NewRequirement(karpenter.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, kind),
				requirements.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "us-east-1a"))})
		}
	}
	return out
}

func TestNoReplacementIsDearer(t *testing.T) {
	onlyG5 := karpenter.NodeSelectorRequirementWithMinValues{Key: model.LabelInstanceType, Operator: corev1.NodeSelectorOpIn, Values: []string{"g5.xlarge"}}
	for name, c := range map[string]struct {
		reason  karpenter.DisruptionReason
		node    *disruption.Candidate
		instead []*disruption.Replacement
		want    [][]string // types of each replacement; nil = refused
	}{
		"what costs more is taken off the list": {
			karpenter.DisruptionReasonDrifted, candidate("a", "g4dn.xlarge", 0.526),
			[]*disruption.Replacement{replacement("a", offer("g4dn.xlarge", 0.526, 0), offer("g4dn.12xlarge", 3.912, 0), offer("g5.xlarge", 1.006, 0))},
			[][]string{{"g4dn.xlarge"}},
		},
		"a sliced node that would become a larger one is left alone": {
			karpenter.DisruptionReasonDrifted, candidate("a", "g4dn.xlarge", 0.526),
			[]*disruption.Replacement{replacement("a", offer("g4dn.12xlarge", 3.912, 0))},
			nil,
		},
		"several nodes for one count together": {
			karpenter.DisruptionReasonDrifted, candidate("a", "g5.12xlarge", 5.672),
			[]*disruption.Replacement{replacement("a", offer("g5.xlarge", 1.006, 0)), replacement("a", offer("g5.2xlarge", 1.212, 0), offer("g5.48xlarge", 16.288, 0))},
			[][]string{{"g5.xlarge"}, {"g5.2xlarge"}},
		},
		"and are refused together": {
			karpenter.DisruptionReasonDrifted, candidate("a", "g4dn.xlarge", 0.526),
			[]*disruption.Replacement{replacement("a", offer("g4dn.xlarge", 0.526, 0)), replacement("a", offer("g4dn.xlarge", 0.526, 0))},
			nil,
		},
		"a node for pods that were pending anyway is not part of it": {
			karpenter.DisruptionReasonDrifted, candidate("a", "g4dn.xlarge", 0.526),
			[]*disruption.Replacement{replacement("a", offer("g4dn.xlarge", 0.526, 0)), replacement("", offer("p4d.24xlarge", 32, 0))},
			[][]string{{"g4dn.xlarge"}},
		},
		"a broken node is replaced at any price": {
			karpenter.DisruptionReasonUnhealthy, candidate("a", "g4dn.xlarge", 0.526),
			[]*disruption.Replacement{replacement("a", offer("g5.xlarge", 1.006, 0))},
			[][]string{{"g5.xlarge"}},
		},
		"a node that its pool has ruled out is replaced by what the pool asks for": {
			karpenter.DisruptionReasonDrifted, candidate("a", "g4dn.xlarge", 0.526, onlyG5),
			[]*disruption.Replacement{replacement("a", offer("g5.xlarge", 1.006, 0))},
			[][]string{{"g5.xlarge"}},
		},
		"a node whose price is not known is replaced": {
			karpenter.DisruptionReasonDrifted, candidate("a", "x1.large", 0),
			[]*disruption.Replacement{replacement("a", offer("g5.xlarge", 1.006, 0))},
			[][]string{{"g5.xlarge"}},
		},
		"consolidation is held to it too": {
			karpenter.DisruptionReasonUnderutilized, candidate("a", "g4dn.xlarge", 0.526),
			[]*disruption.Replacement{replacement("a", offer("g5.xlarge", 1.006, 0))},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inner := &method{reason: c.reason, answers: map[string]disruption.Command{"a": {Candidates: []*disruption.Candidate{c.node}, Replacements: c.instead}}}
			events := &heard{}
			wrapped := priceAll([]disruption.Method{inner}, nil, events)[0]
			commands, err := wrapped.ComputeCommands(t.Context(), map[string]int{"": 1}, c.node)
			if err != nil {
				t.Fatal(err)
			}
			var got [][]string
			for _, cmd := range commands {
				for _, r := range cmd.Replacements {
					var names []string
					for _, k := range r.InstanceTypeOptions {
						names = append(names, k.Name)
					}
					got = append(got, names)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			said := strings.Join(events.about("DisruptionBlocked"), "\n")
			if (c.want == nil) != strings.Contains(said, "$/h") {
				t.Errorf("events: %q", said)
			}
		})
	}
}

func TestSpotDoesNotFallBackToSomethingDearer(t *testing.T) {
	n := candidate("a", "g5.xlarge", 0.5)
	inner := &method{reason: karpenter.DisruptionReasonDrifted, answers: map[string]disruption.Command{"a": {
		Candidates: []*disruption.Candidate{n}, Replacements: []*disruption.Replacement{replacement("a", offer("g5.xlarge", 1.006, 0.4))},
	}}}
	commands, err := priceAll([]disruption.Method{inner}, nil, &heard{})[0].ComputeCommands(t.Context(), nil, n)
	if err != nil || len(commands) != 1 {
		t.Fatal(commands, err)
	}
	if kinds := commands[0].Replacements[0].Requirements.Get(karpenter.CapacityTypeLabelKey); kinds.Has(model.OnDemand) {
		t.Errorf("on-demand at 1.006 $/h may replace a spot node of 0.5 $/h: %v", kinds)
	}
}

func TestARefusedNodeDoesNotHoldTheOthersUp(t *testing.T) {
	dear, fine := candidate("a", "g4dn.xlarge", 0.5), candidate("b", "g5.xlarge", 1.006)
	inner := &method{reason: karpenter.DisruptionReasonDrifted, answers: map[string]disruption.Command{
		"a": {Candidates: []*disruption.Candidate{dear}, Replacements: []*disruption.Replacement{replacement("a", offer("g5.48xlarge", 16.288, 0))}},
		"b": {Candidates: []*disruption.Candidate{fine}, Replacements: []*disruption.Replacement{replacement("b", offer("g5.xlarge", 1.006, 0))}},
	}}
	commands, err := priceAll([]disruption.Method{inner}, nil, &heard{})[0].ComputeCommands(t.Context(), nil, dear, fine)
	if err != nil || len(commands) != 1 || commands[0].Candidates[0] != fine {
		t.Errorf("commands %v after %d calls, %v", commands, inner.asked, err)
	}
}

func TestMinimumsWinOverThePrice(t *testing.T) {
	n, two := candidate("a", "g5.xlarge", 1.006), 2
	r := replacement("a", offer("g5.xlarge", 1.006, 0), offer("g5.2xlarge", 1.212, 0))
	for _, k := range r.InstanceTypeOptions {
		k.Requirements = requirements.NewRequirements(requirements.NewRequirement(model.LabelInstanceType, corev1.NodeSelectorOpIn, k.Name))
	}
	r.Requirements.Add(requirements.NewRequirementWithFlexibility(model.LabelInstanceType, corev1.NodeSelectorOpIn, &two, "g5.xlarge", "g5.2xlarge"))
	inner := &method{reason: karpenter.DisruptionReasonDrifted, answers: map[string]disruption.Command{"a": {Candidates: []*disruption.Candidate{n}, Replacements: []*disruption.Replacement{r}}}}
	commands, err := priceAll([]disruption.Method{inner}, nil, &heard{})[0].ComputeCommands(t.Context(), nil, n)
	if err != nil || len(commands) != 1 || len(commands[0].Replacements[0].InstanceTypeOptions) != 2 {
		t.Errorf("the pool asks for two types at least: %v, %v", commands, err)
	}
	if math.IsInf(cheapest(r), 1) {
		t.Error("the replacement cannot be had at all")
	}
}
