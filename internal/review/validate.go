package review

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

func (g *Guard) validate(ctx context.Context, r *request) (response, error) {
	if r.operation == remove || r.operation == connect {
		return allowed(), nil
	}
	d, err := r.document(r.object)
	if err != nil {
		return response{}, err
	}
	found, err := g.findings(ctx, d, r)
	if err == nil && len(found) > 0 && r.operation == update {
		found, err = g.added(ctx, found, r)
	}
	if err != nil {
		return response{}, err
	}
	return g.verdict(d, found), nil
}

// findings are everything that the rules say of an object.
func (g *Guard) findings(ctx context.Context, d manifest.Document, r *request) ([]guard.Finding, error) {
	list := r.pods(d)
	if len(list) == 0 {
		f, err := g.Cluster.Facts(ctx, &guard.Pod{Namespace: r.namespace})
		if err != nil {
			return nil, err
		}
		return guard.ReviewObject(d, f, g.Exemptions), nil
	}
	var out []guard.Finding
	for i := range list {
		f, err := g.Cluster.Facts(ctx, &list[i])
		if err != nil {
			return nil, err
		}
		out = append(out, g.review(&list[i], f)...)
	}
	return out, nil
}

// review applies the rules to one pod. Templates are warned of, as their pods
// will be judged; so is the kubelet's picture of a static pod, which runs
// whatever becomes of the picture.
func (g *Guard) review(p *guard.Pod, f *guard.Facts) []guard.Finding {
	found := guard.Review(p, f, g.Exemptions)
	if p.Kind != "Pod" || p.Static {
		for i := range found {
			found[i].Severity = min(found[i].Severity, model.Warning)
		}
	}
	return found
}

// added keeps the findings that the old object does not have.
func (g *Guard) added(ctx context.Context, found []guard.Finding, r *request) ([]guard.Finding, error) {
	old, err := r.document(r.oldObject)
	if err != nil {
		return found, nil // without an old object everything is new
	}
	before, err := g.findings(ctx, old, r)
	if err != nil {
		return nil, err
	}
	type key struct{ rule, container, text string }
	had := map[key]bool{}
	for _, f := range before {
		had[key{f.Rule, f.Container, f.Text}] = true
	}
	return slices.DeleteFunc(found, func(f guard.Finding) bool { return had[key{f.Rule, f.Container, f.Text}] }), nil
}

func (g *Guard) verdict(d manifest.Document, found []guard.Finding) response {
	refused := guard.Refused(found)
	out, verdict := allowed(), "allowed"
	if len(refused) > 0 {
		out, verdict = denied(refusal(d, refused)), "denied"
	}
	out.Warnings, out.AuditAnnotations = warnings(found), audit(found)
	g.count(verdict, found)
	return out
}

// How much a refusal says: enough for whoever wrote the object by hand.
const (
	longestReason = 1000 // bytes of one text
	mostReasons   = 30
)

// refusal reads as kerf explains: what, then each place with its reason, then
// what to do.
func refusal(d manifest.Document, refused []guard.Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s would get at GPUs, or count them, past the extended resource\n", cut(d.Title(), longestReason))
	for _, f := range refused[:min(len(refused), mostReasons)] {
		fmt.Fprintf(&b, "  %s  %s\n    %s\n", f.Rule, cut(f.Place.Field, longestReason), cut(f.Text, longestReason))
		if f.Fix != "" {
			fmt.Fprintf(&b, "    → %s\n", cut(f.Fix, longestReason))
		}
	}
	if left := len(refused) - mostReasons; left > 0 {
		fmt.Fprintf(&b, "  and %d more: kerf guard scan lists them\n", left)
	}
	b.WriteString("  kerf guard rules NAME tells more; an administrator can exempt a service account or label the namespace")
	return b.String()
}

// The API server cuts long warnings, and drops all of them past 4 KiB.
const (
	longestWarning = 250
	mostWarnings   = 10
)

func warnings(found []guard.Finding) []string {
	var out []string
	left := 0
	for _, f := range found {
		if f.Severity != model.Warning {
			continue
		}
		if len(out) == mostWarnings {
			left++
			continue
		}
		text := f.Rule + ": " + f.Text
		if f.Fix != "" {
			text += " → " + f.Fix
		}
		out = append(out, cut(text, longestWarning))
	}
	if left > 0 {
		out = append(out, fmt.Sprintf("and %d more: kerf guard scan lists them", left))
	}
	return out
}

// audit is what goes into the audit log: the text of each rule's first finding.
func audit(found []guard.Finding) map[string]string {
	var out map[string]string
	for _, f := range found {
		if out == nil {
			out = map[string]string{}
		}
		if _, said := out[f.Rule]; !said {
			out[f.Rule] = f.Severity.String() + ": " + cut(f.Place.Field+": "+f.Text, longestReason)
		}
	}
	return out
}

// cut shortens a text to at most size bytes, at a character.
func cut(text string, size int) string {
	const dots = "…"
	if len(text) <= size {
		return text
	}
	end := size - len(dots)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + dots
}
