package render

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

//go:embed guard.html.tmpl
var guardSource string

var guardTemplate = template.Must(template.New("guard").Parse(guardSource))

// GuardHTML writes a scan as one page that needs nothing else.
func GuardHTML(w io.Writer, a Audit) error {
	var b bytes.Buffer
	if err := guardTemplate.Execute(&b, newGuardSheet(a)); err != nil {
		return fmt.Errorf("render the page: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// A guardSheet is what the template shows.
type guardSheet struct {
	Outcome, Extent, Exempt, Enforcement string
	Stats                                []stat
	Breaches                             []breachView
	Namespaces                           []namespaceView
	Excused                              []placeView
	Unread                               []noteView
	Clean                                []string // rules that nothing breaks
}

type breachView struct {
	Name, Severity, Title, Doc, Fix, Source, Except string
	Places                                          []placeView
	More                                            int
}

type placeView struct{ Rule, Place, Object, Field, Text, Fix string }

// A namespaceView counts the findings in one namespace; the bars are percent of
// the most that any has.
type namespaceView struct {
	Name                             string
	Errors, Warnings, Infos          int
	ErrorBar, WarningBar, InfoBar    string
	WarningStart, InfoStart, Summary string
}

// pagePlaces is how many places of a rule a page lists.
const pagePlaces = 200

func newGuardSheet(a Audit) guardSheet {
	s := guardSheet{
		Outcome: outcome(a.Report), Extent: extent(a.Report), Exempt: exempt(a.Report), Enforcement: a.enforcement(), Namespaces: namespaceViews(a.Findings),
		Stats: []stat{
			{Value: number(a.Count(model.Error)), Unit: "to refuse", Detail: "GPUs past the device plugin, or miscounted"},
			{Value: number(a.Count(model.Warning)), Unit: "to warn of", Detail: "may reach GPUs, or looks like a mistake"},
			{Value: number(a.Count(model.Info)), Unit: "to know of", Detail: "worth a look"},
			{Value: number(a.Pods), Unit: plural(a.Pods, "pod template"), Detail: "in " + count(a.Namespaces, "namespace")},
		},
	}
	broken := map[string]bool{}
	for _, b := range breaches(a.Findings) {
		broken[b.Name] = true
		s.Breaches = append(s.Breaches, viewBreach(b))
	}
	for _, r := range guard.Rules() {
		if !broken[r.Name] {
			s.Clean = append(s.Clean, r.Name)
		}
	}
	for _, f := range a.Excused {
		s.Excused = append(s.Excused, viewPlace(f))
	}
	for _, n := range a.Unread {
		s.Unread = append(s.Unread, noteView{Severity: n.Severity.String(), Place: where(n), Object: n.Place.Object, Text: n.Text, Fix: n.Fix})
	}
	return s
}

func viewBreach(b breach) breachView {
	v := breachView{Name: b.Name, Severity: b.severity.String(), Title: b.Title, Doc: b.Doc, Fix: b.Fix, Source: b.Source, Except: b.Except}
	for i, f := range b.found {
		if i == pagePlaces {
			v.More = len(b.found) - i
			break
		}
		place := viewPlace(f)
		if place.Fix == b.Fix {
			place.Fix = ""
		}
		v.Places = append(v.Places, place)
	}
	return v
}

func viewPlace(f guard.Finding) placeView {
	return placeView{Rule: f.Rule, Place: f.Place.String(), Object: besides(f.Place), Field: f.Place.Field, Text: f.Text, Fix: f.Fix}
}

// namespaceViews counts findings by namespace, those with the gravest first,
// where there is more than one to compare.
func namespaceViews(found []guard.Finding) []namespaceView {
	at := map[string]int{}
	var out []namespaceView
	for _, f := range found {
		name := f.Namespace()
		if _, ok := at[name]; !ok {
			at[name] = len(out)
			out = append(out, namespaceView{Name: name})
		}
		switch v := &out[at[name]]; f.Severity {
		case model.Error:
			v.Errors++
		case model.Warning:
			v.Warnings++
		default:
			v.Infos++
		}
	}
	if len(out) < 2 {
		return nil
	}
	most := 0
	for _, v := range out {
		most = max(most, v.Errors+v.Warnings+v.Infos)
	}
	slices.SortStableFunc(out, func(a, b namespaceView) int {
		return (b.Errors-a.Errors)*1000000 + (b.Warnings-a.Warnings)*1000 + b.Infos - a.Infos
	})
	for i := range out {
		v := &out[i]
		bar := func(n int) string { return fmt.Sprintf("%.1f", 100*float64(n)/float64(most)) }
		v.ErrorBar, v.WarningBar, v.InfoBar = bar(v.Errors), bar(v.Warnings), bar(v.Infos)
		v.WarningStart, v.InfoStart = bar(v.Errors), bar(v.Errors+v.Warnings)
		v.Summary = fmt.Sprintf("%d to refuse, %d to warn of, %d to know of", v.Errors, v.Warnings, v.Infos)
	}
	return out
}
