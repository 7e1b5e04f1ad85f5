package render

import (
	"fmt"
	"strings"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

// The item of Kubernetes AI Conformance that the guard is about, in its words
// (cncf/k8s-ai-conformance, lists for 1.33 to 1.36; a MUST).
const (
	conformanceItem = "secure_accelerator_access"
	conformanceText = "Ensure that access to accelerators from within containers is properly isolated and mediated by the Kubernetes resource management framework " +
		"(device plugin or DRA) and container runtime, preventing unauthorized access or interference between workloads."
)

// Evidence writes a scan as evidence for that item, as Markdown: what was looked
// at and how, what each rule found, who is exempt, what it does not show, and the
// entry for the product's list. It holds no time, so that the same cluster gives
// the same bytes.
func Evidence(a Audit) []byte {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("# %s", conformanceItem)
	say("\n> MUST: %s", conformanceText)
	say("\n**Result: %s**", verdict(a))
	say("\n## What was looked at\n")
	say("- `kerf guard scan` %s, %d rules; each rule and its source: `kerf guard rules`", a.Version, len(guard.Rules()))
	say("- %s", extent(a.Report))
	say("- %s", a.enforcement())
	for _, n := range a.Unread {
		say("- not read: %s", strings.TrimSpace(n.Place.String()+" "+n.Text))
	}
	say("\nThe scan takes every container, init container and debug container of every pod and pod template, works out its environment as the kubelet does, and looks for each known way to")
	say("a GPU that is mediated neither by the device plugin nor by DRA.")
	say("\n## Rules\n\n| bypass | rule | severity | found | excused |\n|---|---|---|---|---|")
	for _, r := range guard.Rules() {
		row := "-"
		if r.Row > 0 {
			row = fmt.Sprint(r.Row)
		}
		say("| %s | `%s` %s | %s | %d | %d |", row, r.Name, r.Title, r.Severity, of(a.Findings, r.Name), of(a.Excused, r.Name))
	}
	say("\n## Exemptions\n")
	for _, e := range a.Exemptions {
		say("- `%s`", e)
	}
	if len(a.Exemptions) == 0 {
		say("None.")
	}
	places(say, "What exemptions and namespace labels excuse", a.Excused)
	places(say, "Findings", a.Findings)
	say("\n## What this does not show\n")
	say("- what images set in their own environment; the mutating policy makes that harmless (`kerf guard policies`)")
	say("- containers that are started past the API server, other than static pods")
	say("- the two tests at run time that the conformance programme describes: a pod without a GPU finds no device on a GPU node, and one of two pods cannot use the other's")
	say("\n## Entry for PRODUCT.yaml\n\n```yaml")
	say("- id: %s\n  description: %q\n  level: MUST\n  status: %q\n  evidence:\n  - %q\n  notes: %q\n```", conformanceItem, conformanceText, status(a), conformanceItem+".md",
		outcome(a.Report)+"; "+extent(a.Report)+"; "+a.enforcement())
	return []byte(b.String())
}

// verdict sums up what the evidence supports.
func verdict(a Audit) string {
	switch {
	case past(a) > 0:
		return "not met: GPUs are had past the device plugin and DRA in " + count(past(a), "place")
	case len(a.Unread) > 0:
		return "not shown, as some of the input could not be read"
	case a.Enforced == "":
		return "met by what was scanned, but nothing enforces it"
	}
	return "met and enforced"
}

// past counts the places to refuse that lead past the device plugin and DRA. What
// counts GPUs wrongly is no matter of access.
func past(a Audit) int {
	n := 0
	for _, f := range a.Findings {
		if rule, _ := guard.Named(f.Rule); rule.Row > 0 && f.Severity == model.Error {
			n++
		}
	}
	return n
}

// status is the word that the product's list has for it.
func status(a Audit) string {
	if past(a) == 0 && len(a.Unread) == 0 && a.Enforced != "" {
		return "Implemented"
	}
	return "Not Implemented"
}

func of(found []guard.Finding, rule string) int {
	n := 0
	for _, f := range found {
		if f.Rule == rule {
			n++
		}
	}
	return n
}

func places(say func(string, ...any), title string, found []guard.Finding) {
	if len(found) == 0 {
		return
	}
	say("\n## %s\n", title)
	for _, f := range found {
		say("- %s `%s` %s `%s` %s: %s", f.Severity, f.Rule, f.Place, f.Place.Field, f.Place.Object, f.Text)
	}
}
