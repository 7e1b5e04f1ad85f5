// Package explain puts verdicts into words: what was asked, what is offered,
// and the nearest change that helps. It decides nothing: what it proposes are
// the remedies that the solver tried, and the words that a misspelt one is
// plainly meant to be.
//
// It reads the fields of a verdict as internal/model says, and these as follows:
//
//   - taint: Offered holds the taint's value, its effect, both, or "key=value:effect"
//   - requirement, no-type: Wanted holds the values of an In, or the operator and
//     then the values, or the whole as one: "NotIn [g5]"
//   - no-type, too-big on a pool: with Asked and Offered set, Offered holds the
//     amounts that types have ("1", "4") and Detail the requirement that leaves them
//   - no-offering: Key is the label of the zone or of the capacity type
//   - spread: Asked is the largest skew, Offered the domains
//   - pod-affinity: Asked is the number of pods that must share a domain, Have
//     the number that fit
//   - min-values: Asked is the number demanded, Have the number left
package explain

import (
	"fmt"

	"github.com/kerfdev/kerf/internal/model"
)

// A Sentence is a verdict in words.
type Sentence struct {
	Text  string   // lower case, no full stop
	Fixes []string // single changes, each enough by itself; nearest first
}

// Verdict puts one verdict into words. It does not say of which pool or node
// the verdict speaks; a Reason does. Fields of v that a sentence would use and
// that are empty are left out of it.
func Verdict(v model.Verdict) Sentence {
	say, ok := sentences[v.Code]
	if !ok {
		return Sentence{Text: string(v.Code)}
	}
	out := Sentence{Text: say(v)}
	for _, r := range v.Remedy {
		if fix := Remedy(v, r); fix != "" {
			out.Fixes = append(out.Fixes, fix)
		}
	}
	if hint := misspelt(v); hint != "" {
		out.Fixes = append(out.Fixes, hint)
	}
	return out
}

// Remedy puts one change into words; v is the verdict that it would lift. It
// is "" for a kind that is not known or lacks what it is about.
func Remedy(v model.Verdict, r model.Remedy) string {
	do, ok := remedies[r.Kind]
	if !ok {
		return ""
	}
	return do(v, r)
}

// sentences says for each code how its verdict reads.
var sentences = map[model.Code]func(model.Verdict) string{
	model.CodeInvalid:     invalid,
	model.CodeGuard:       guarded,
	model.CodeQuota:       quota,
	model.CodeGated:       gated,
	model.CodeScheduler:   scheduler,
	model.CodeClaims:      claims,
	model.CodeVolume:      volume,
	model.CodeUnusable:    unusable,
	model.CodeTaint:       taint,
	model.CodeRequirement: requirement,
	model.CodeNoType:      noType,
	model.CodeNoResource:  noResource,
	model.CodeMaxRequest:  maxRequest,
	model.CodeTooBig:      tooBig,
	model.CodeNoOffering:  noOffering,
	model.CodeMinValues:   minValues,
	model.CodeLimit:       limit,
	model.CodeSpread:      spread,
	model.CodeAffinity:    affinity,
	model.CodeHostPort:    hostPort,
	model.CodeFractional:  fractional,
	model.CodeCPUOnGPU:    cpuOnGPU,
}

func invalid(v model.Verdict) string {
	return "the API server refuses it" + after(": ", join(v.Key, v.Detail))
}

func guarded(v model.Verdict) string {
	return "the guard refuses it" + after(": ", join(v.Key, v.Detail))
}

func quota(v model.Verdict) string {
	if v.Have > 0 || v.Asked > 0 {
		name := resourceOf(v.Key)
		return fmt.Sprintf("the quota of %s for %s is used up: %s in use, %s asked",
			bare(name, v.Have), v.Key, bare(name, v.Used), bare(name, v.Asked))
	}
	return "a quota is used up" + after(": ", join(v.Key, v.Detail))
}

func gated(v model.Verdict) string {
	return "it waits for its scheduling gates" + after(" ", few(v.Wanted))
}

func scheduler(v model.Verdict) string {
	return "another scheduler places it" + after(": ", few(v.Wanted))
}

func claims(v model.Verdict) string {
	return "it uses DRA resource claims" + after(" (", few(v.Wanted), ")") + ", which are not planned"
}

func volume(v model.Verdict) string {
	if v.Detail != "" {
		return v.Detail
	}
	if len(v.Wanted) > 0 {
		return fmt.Sprintf("its volumes can be attached where %s is %s only%s", v.Key, either(v.Wanted), but(v))
	}
	return "its volumes leave no place" + after(": ", v.Key)
}

func unusable(v model.Verdict) string {
	why := v.Detail
	if why == "" {
		why = v.Key
	}
	if v.Node != "" {
		return "the node takes no pods" + after(": ", why)
	}
	return "nothing can be launched from it" + after(": ", why)
}

func taint(v model.Verdict) string {
	return fmt.Sprintf("taint %s is not tolerated", written(v))
}

func requirement(v model.Verdict) string {
	return "requirement " + v.Key + after(" ", condition(v.Wanted)) + but(v)
}

func noType(v model.Verdict) string {
	switch {
	case v.Asked > 0 && len(v.Offered) > 0:
		return sizes(v)
	case v.Asked > 0:
		return fmt.Sprintf("no type with %s is left", amount(v.Key, v.Asked)) + after(": ", v.Detail)
	case v.Key == "":
		return "no instance type is left" + after(": ", v.Detail)
	}
	return "no instance type is left after " + v.Key + after(" ", condition(v.Wanted)) + after(", where the pool allows ", few(v.Offered)) + after(": ", v.Detail)
}

// sizes reads "no type with 2 GPUs: the types allowed offer 1 or 4". Detail
// may hold the requirement that allows them.
func sizes(v model.Verdict) string {
	who := v.Detail + " offers"
	if v.Detail == "" {
		who = "the types allowed offer"
	}
	return fmt.Sprintf("no type with %s: %s %s", amount(v.Key, v.Asked), who, either(v.Offered))
}

func noResource(v model.Verdict) string {
	text := "nothing here advertises " + v.Key
	if v.Node != "" {
		text = "the node does not advertise " + v.Key
	}
	text += after(" under device config ", v.Config)
	if v.Detail != "" {
		return text + ": " + v.Detail
	}
	return text + after("; there is ", few(v.Offered))
}

func maxRequest(v model.Verdict) string {
	text := fmt.Sprintf("one container may ask for at most %s here (failRequestsGreaterThanOne%s)",
		plural(max(v.Have, 1), "slice"), after(" of config ", v.Config))
	if v.Asked > 0 {
		text += fmt.Sprintf("; it asks for %d", v.Asked)
	}
	return text + after(": ", v.Detail)
}

func tooBig(v model.Verdict) string {
	asked := amount(v.Key, v.Asked) + " asked, "
	switch {
	case v.Key == "":
		return "it asks for more than there is" + after(": ", v.Detail)
	case v.Node == "" && len(v.Offered) > 0:
		return sizes(v)
	case v.Node == "" && v.Have > 0:
		asked += "the largest type here has " + bare(v.Key, v.Have)
	case v.Node == "":
		asked += "no type here has any"
	case v.Have > 0:
		asked += "at most " + bare(v.Key, v.Have) + " free"
	default:
		asked += "none free"
	}
	return asked + after(": ", v.Detail)
}

func noOffering(v model.Verdict) string {
	where := func(values []string) string {
		switch v.Key {
		case model.LabelCapacityType:
			return after(" as ", either(values))
		case model.LabelZone:
			return after(" in ", either(values))
		}
		return after(" for ", either(values))
	}
	text := "no type that fits is sold" + where(v.Wanted)
	if len(v.Offered) > 0 {
		text += ", but" + where(v.Offered)
	}
	return text + after(": ", v.Detail)
}

func minValues(v model.Verdict) string {
	left := "no value of " + v.Key + " is left"
	switch {
	case v.Have == 1:
		left = "only 1 value of " + v.Key + " is left"
	case v.Have > 1:
		left = fmt.Sprintf("only %d values of %s are left", v.Have, v.Key)
	}
	return fmt.Sprintf("%s and minValues asks for %d", left, v.Asked) + after(": ", few(v.Offered))
}

func limit(v model.Verdict) string {
	return fmt.Sprintf("limits.%s %s is used up: %s in use, %s asked", v.Key, bare(v.Key, v.Have), bare(v.Key, v.Used), bare(v.Key, v.Asked))
}

func spread(v model.Verdict) string {
	text := "topology spread" + after(" over ", v.Key)
	if v.Asked > 0 {
		text += fmt.Sprintf(" allows a skew of %d", v.Asked)
	}
	switch {
	case v.Detail != "":
		return text + ": " + v.Detail
	case len(v.Offered) > 0:
		return text + ", which one more pod in " + either(v.Offered) + " would exceed"
	}
	return text + " and leaves no place"
}

func affinity(v model.Verdict) string {
	over := after(" over ", v.Key)
	switch {
	case v.Detail != "":
		return "pod affinity" + over + ": " + v.Detail
	case v.Asked > 0 && v.Have > 0:
		return fmt.Sprintf("pod affinity%s keeps %s together, and there is room for %d", over, plural(v.Asked, "pod"), v.Have)
	}
	return "pod affinity or anti-affinity" + over + " leaves no place" + after(" in ", few(v.Offered))
}

func hostPort(v model.Verdict) string {
	return "host port " + v.Key + " is taken" + after(" by ", few(v.Offered))
}

func fractional(v model.Verdict) string {
	return "only fractions of a GPU are left" + after(" (", few(v.Offered), ")") + ", which a pool has to name by family, type or size"
}

func cpuOnGPU(v model.Verdict) string {
	return "pods without GPUs are kept off GPU nodes" + after(": ", v.Detail)
}
