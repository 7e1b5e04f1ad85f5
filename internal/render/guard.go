package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

// An Audit is a scan by the guard and what there is to say about it.
type Audit struct {
	guard.Report
	Unread   []model.Note // what could not be read, and so was not looked at
	Enforced string       // the object by which the cluster enforces the guard, "" for none
	Version  string       // of kerf
}

// A breach is a rule with its findings.
type breach struct {
	guard.Rule
	severity model.Severity // the gravest of its findings
	found    []guard.Finding
}

// breaches groups findings by rule, the gravest first, then in the order of the rules.
func breaches(found []guard.Finding) []breach {
	var out []breach
	for _, r := range guard.Rules() {
		b := breach{Rule: r}
		for _, f := range found {
			if f.Rule == r.Name {
				b.found = append(b.found, f)
				b.severity = max(b.severity, f.Severity)
			}
		}
		if len(b.found) > 0 {
			out = append(out, b)
		}
	}
	slices.SortStableFunc(out, func(a, b breach) int { return int(b.severity) - int(a.severity) })
	return out
}

// outcome is the first line of a scan: what was found, in words.
func outcome(r guard.Report) string {
	var parts []string
	for _, x := range []struct {
		severity model.Severity
		what     string
	}{{model.Error, "to refuse"}, {model.Warning, "to warn of"}, {model.Info, "to know of"}} {
		if n := r.Count(x.severity); n > 0 {
			parts = append(parts, number(n)+" "+x.what)
		}
	}
	if len(parts) == 0 {
		return "nothing found"
	}
	return strings.Join(parts, " · ")
}

// extent says what was looked at.
func extent(r guard.Report) string {
	return fmt.Sprintf("%s and %s in %s", count(r.Pods, "pod template"), count(r.Objects, "other object"), count(r.Namespaces, "namespace"))
}

// exempt says who is exempt, and from how much.
func exempt(r guard.Report) string {
	if len(r.Exemptions) == 0 {
		return ""
	}
	var who []string
	for _, e := range r.Exemptions {
		who = append(who, e.String())
	}
	text := "exempt: " + strings.Join(who, ", ")
	if n := len(r.Excused); n > 0 {
		text += fmt.Sprintf("; these and labels of namespaces excuse %s", count(n, "refusal"))
	}
	return text
}

// enforcement says whether the findings have effect in the cluster.
func (a Audit) enforcement() string {
	if a.Enforced == "" {
		return "nothing in the input enforces this: kerf guard policies writes what does"
	}
	return "enforced by " + a.Enforced
}

// GuardTable writes a scan for a terminal: the answer, then each rule that is
// broken with every place.
func GuardTable(w io.Writer, a Audit, o Options) error {
	p := newPage(o)
	p.line()
	p.split("  "+p.paint(bold, p.say(outcome(a.Report))), p.paint(dim, p.say(extent(a.Report))))
	if text := exempt(a.Report); text != "" {
		p.para("  ", text)
	}
	p.para("  ", a.enforcement())
	for _, b := range breaches(a.Findings) {
		p.breach(b)
	}
	p.notes(a.Unread)
	return p.flush(w)
}

// mostPlaces is how many places of a rule are shown unless the page is wide.
const mostPlaces = 8

func (p *page) breach(b breach) {
	tint := map[model.Severity]style{model.Error: red, model.Warning: yellow, model.Info: dim}[b.severity]
	p.line()
	head := "  " + p.paint(tint, pad(b.severity.String(), 7)) + "  "
	p.para(head, b.Name+" · "+b.Title)
	indent := strings.Repeat(" ", 11)
	shown := b.found
	if !p.Wide && len(shown) > mostPlaces+1 {
		shown = shown[:mostPlaces]
	}
	for _, f := range shown {
		p.line(indent, p.paint(bold, f.Place.String()), "  ", p.paint(dim, strings.TrimSpace(besides(f.Place)+"  "+f.Place.Field)))
		p.para(indent+"  ", f.Text)
		if f.Fix != b.Fix {
			p.fix(13, f.Fix)
		}
	}
	if n := len(b.found) - len(shown); n > 0 {
		p.para(indent, fmt.Sprintf("and at %d more places; --wide shows them", n))
	}
	if slices.ContainsFunc(b.found, func(f guard.Finding) bool { return f.Fix == b.Fix }) {
		p.fix(11, b.Fix)
	}
}

// GuardVersion names the shape of what kerf guard scan writes in JSON.
const GuardVersion = "kerf.dev/guard/v1"

// A GuardDoc is a scan in JSON.
type GuardDoc struct {
	Version    string         `json:"version"`
	Summary    map[string]int `json:"summary"` // number of findings by severity
	Templates  int            `json:"podTemplates"`
	Objects    int            `json:"objects"`
	Namespaces int            `json:"namespaces"`
	EnforcedBy string         `json:"enforcedBy,omitempty"`
	Exemptions []string       `json:"exemptions"`
	Findings   []FindingDoc   `json:"findings"`
	Excused    []FindingDoc   `json:"excused"` // what exemptions and labels keep from being refused
	Unread     []NoteDoc      `json:"unread"`
}

// A FindingDoc is a finding in JSON.
type FindingDoc struct {
	NoteDoc
	Container string `json:"container,omitempty"`
	Identity  string `json:"identity,omitempty"` // namespace/service-account
}

// GuardJSON puts a scan into its document.
func GuardJSON(a Audit) GuardDoc {
	d := GuardDoc{
		Version: GuardVersion, Summary: map[string]int{}, Templates: a.Pods, Objects: a.Objects, Namespaces: a.Namespaces, EnforcedBy: a.Enforced,
		Exemptions: []string{}, Findings: findingDocs(a.Findings), Excused: findingDocs(a.Excused), Unread: []NoteDoc{},
	}
	for _, s := range []model.Severity{model.Error, model.Warning, model.Info} {
		d.Summary[s.String()] = a.Count(s)
	}
	for _, e := range a.Exemptions {
		d.Exemptions = append(d.Exemptions, e.String())
	}
	for _, n := range a.Unread {
		d.Unread = append(d.Unread, noteDoc(n))
	}
	return d
}

func findingDocs(found []guard.Finding) []FindingDoc {
	out := []FindingDoc{}
	for _, f := range found {
		out = append(out, FindingDoc{NoteDoc: noteDoc(f.Note()), Container: f.Container, Identity: f.Identity})
	}
	return out
}

// A RuleDoc is a rule in JSON.
type RuleDoc struct {
	Name        string `json:"name"`
	Severity    string `json:"severity"`
	Title       string `json:"title"`
	Doc         string `json:"doc"`
	Fix         string `json:"fix,omitempty"`
	Bypass      int    `json:"bypass,omitempty"` // number in the list of ways to a GPU that are not counted
	Source      string `json:"source"`
	Except      string `json:"exceptions,omitempty"`
	Sees        string `json:"seenBy"`
	PodSecurity bool   `json:"podSecurityBaseline"`
	Label       string `json:"label"`
}

// RulesDoc is the rules in JSON.
type RulesDoc struct {
	Version string    `json:"version"`
	Rules   []RuleDoc `json:"rules"`
}

// RulesJSON puts rules into their document.
func RulesJSON(rules []guard.Rule) RulesDoc {
	d := RulesDoc{Version: "kerf.dev/guard-rules/v1", Rules: []RuleDoc{}}
	for _, r := range rules {
		d.Rules = append(d.Rules, RuleDoc{
			Name: r.Name, Severity: r.Severity.String(), Title: r.Title, Doc: r.Doc, Fix: r.Fix, Bypass: r.Row, Source: r.Source, Except: r.Except,
			Sees: r.Sees.String(), PodSecurity: r.PodSecurity, Label: guard.LabelPrefix + r.Name,
		})
	}
	return d
}

// Rules lists rules, a line each, by what they are about.
func Rules(w io.Writer, rules []guard.Rule, o Options) error {
	p := newPage(o)
	width := 0
	for _, r := range rules {
		width = max(width, wide(r.Name))
	}
	p.line()
	p.line("  ", p.paint(dim, pad("severity", 9)+pad("rule", width+2)+"what"))
	for _, r := range rules {
		tint := map[model.Severity]style{model.Error: red, model.Warning: yellow, model.Info: dim}[r.Severity]
		p.para("  "+p.paint(tint, pad(r.Severity.String(), 9))+pad(r.Name, width+2), r.Title)
	}
	p.line()
	p.para("  ", "error is refused, warning is warned of, info is recorded; kerf guard rules NAME says more about one")
	return p.flush(w)
}

// Rule explains one rule.
func Rule(w io.Writer, r guard.Rule, o Options) error {
	p := newPage(o)
	p.line()
	p.line("  ", p.paint(bold, r.Name), "  ", p.paint(dim, r.Severity.String()))
	p.para("  ", r.Title)
	p.line()
	p.para("  ", r.Doc)
	p.line()
	field := func(name, text string) {
		if text != "" {
			p.para("  "+p.paint(dim, pad(name, 12)), text)
		}
	}
	field("fix", r.Fix)
	field("who may", r.Except)
	field("seen by", seenBy(r))
	field("source", r.Source)
	if r.Row > 0 {
		field("bypass", fmt.Sprintf("number %d of the list in the documentation of the guard", r.Row))
	}
	field("to relax", fmt.Sprintf("label the namespace %s%s: warn, audit or \"off\"; or --exempt namespace/serviceaccount:%s", guard.LabelPrefix, r.Name, r.Name))
	return p.flush(w)
}

func seenBy(r guard.Rule) string {
	text := map[guard.Sight]string{
		guard.ByPolicy: "kerf guard scan, the webhook, and policies", guard.ByWebhook: "kerf guard scan and the webhook, not policies", guard.ByScan: "kerf guard scan only",
	}[r.Sees]
	if r.PodSecurity {
		text += "; the Pod Security standard baseline refuses it too where it is enforced"
	}
	return text
}

// Unseen lists what policies cannot see: rule, who can, and why.
func Unseen(w io.Writer, rows [][3]string, o Options) error {
	p := newPage(o)
	width := 0
	for _, r := range rows {
		width = max(width, wide(r[0]))
	}
	p.line()
	p.line("  ", p.paint(dim, pad("rule", width+2)+pad("seen by", 15)+"why policies do not see it, or not all of it"))
	for _, r := range rows {
		p.para("  "+pad(r[0], width+2)+pad(r[1], 15), r[2])
	}
	return p.flush(w)
}

// besides is the object of a place, "" where the place is named by it: what is
// read from a cluster has no file.
func besides(p model.Place) string {
	if p.String() == p.Object {
		return ""
	}
	return p.Object
}
