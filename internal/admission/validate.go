package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

// Validate judges a review: it is denied when a rule of severity error is newly
// broken, and carries a warning or an audit annotation for each other finding.
// Templates of pods are only ever warned of.
func (g *Guard) Validate(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation == admissionv1.Delete || req.Operation == admissionv1.Connect {
		return admission.Allowed("")
	}
	d, err := document(req.Object.Raw, &req.AdmissionRequest)
	if err != nil {
		g.count("failed", nil)
		return refuse(err)
	}
	found, err := g.findings(ctx, d, &req.AdmissionRequest)
	if err != nil {
		g.count("failed", nil)
		return fail(err)
	}
	if len(found) > 0 && req.Operation == admissionv1.Update {
		if found, err = g.added(ctx, found, &req.AdmissionRequest); err != nil {
			g.count("failed", nil)
			return fail(err)
		}
	}
	return g.verdict(d, found)
}

// findings are everything that the rules say of an object.
func (g *Guard) findings(ctx context.Context, d manifest.Document, req *admissionv1.AdmissionRequest) ([]guard.Finding, error) {
	list := pods(d, req)
	if len(list) == 0 {
		f, err := g.Cluster.Facts(ctx, &guard.Pod{Namespace: req.Namespace})
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
func (g *Guard) added(ctx context.Context, found []guard.Finding, req *admissionv1.AdmissionRequest) ([]guard.Finding, error) {
	old, err := document(req.OldObject.Raw, req)
	if err != nil {
		return found, nil // without an old object everything is new
	}
	before, err := g.findings(ctx, old, req)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(f guard.Finding) bool {
		return slices.ContainsFunc(before, func(b guard.Finding) bool {
			return b.Rule == f.Rule && b.Container == f.Container && b.Text == f.Text
		})
	}), nil
}

func (g *Guard) verdict(d manifest.Document, found []guard.Finding) admission.Response {
	refused := guard.Refused(found)
	response := admission.Allowed("")
	verdict := "allowed"
	if len(refused) > 0 {
		verdict = "denied"
		response = admission.Denied(refusal(d, refused))
	}
	response.Warnings = warnings(found)
	response.AuditAnnotations = audit(found)
	g.count(verdict, found)
	return response
}

// refusal reads as kerf explains: what, then each place with its reason, then
// what to do.
func refusal(d manifest.Document, refused []guard.Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s would get at GPUs, or count them, past the extended resource\n", d.Title())
	for _, f := range refused {
		fmt.Fprintf(&b, "  %s  %s\n    %s\n", f.Rule, f.Place.Field, f.Text)
		if f.Fix != "" {
			fmt.Fprintf(&b, "    → %s\n", f.Fix)
		}
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
			out[f.Rule] = f.Severity.String() + ": " + f.Place.Field + ": " + f.Text
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
