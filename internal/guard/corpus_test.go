package guard_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/source"
)

// A file of the corpus is a claim, which its name makes: objects, and at its
// head in comments what is to be found in them.
//
//	# want: rules that are broken, or none
//	# severity: of all findings, where the namespace's labels set one
//	# exempt: an exemption beside the default ones
//	# policy: what policies find, where that is something else
//	# webhook: what the webhook finds on an API server, where that is something else
//	# server: what the API server answers by itself: refused, unserved
//	# max-request: a resource and the most that a container is granted of it
type claim struct {
	name       string
	want       []string
	severity   string
	exemptions guard.Exemptions
	inventory  guard.Inventory
}

func corpus(t testing.TB) []claim {
	t.Helper()
	files, err := filepath.Glob("testdata/corpus/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out []claim
	for _, file := range files {
		out = append(out, readClaim(t, file))
	}
	return out
}

func readClaim(t testing.TB, file string) claim {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	docs, notes := source.Parse(source.File{Name: filepath.Base(file), Data: data})
	if len(notes) > 0 {
		t.Fatalf("%s: %v", file, notes)
	}
	c := claim{name: strings.TrimSuffix(filepath.Base(file), ".yaml"), exemptions: guard.DefaultExemptions(), inventory: guard.Read(docs)}
	for line := range strings.Lines(string(data)) {
		key, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "# "), ": ")
		if !strings.HasPrefix(line, "# ") || !ok {
			break
		}
		switch key {
		case "want":
			c.want = strings.Fields(strings.TrimPrefix(value, "none"))
		case "severity":
			c.severity = value
		case "exempt":
			e, err := guard.ParseExemption(value)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			c.exemptions = append(c.exemptions, e)
		case "max-request":
			name, most, _ := strings.Cut(value, " ")
			n, err := strconv.ParseInt(most, 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			c.inventory.MaxRequest = map[string]int64{name: n}
		}
	}
	slices.Sort(c.want)
	return c
}

func TestCorpus(t *testing.T) {
	pods := 0
	for _, c := range corpus(t) {
		pods += len(c.inventory.Pods)
		t.Run(c.name, func(t *testing.T) {
			report := guard.Scan(c.inventory, c.exemptions)
			var got []string
			for _, f := range report.Findings {
				got = append(got, f.Rule)
				switch rule, _ := guard.Named(f.Rule); {
				case c.severity != "" && f.Severity.String() != c.severity:
					t.Errorf("%s is a finding of severity %s, want %s", f.Rule, f.Severity, c.severity)
				case c.severity == "" && f.Severity != rule.Severity:
					t.Errorf("%s is a finding of severity %s, want the rule's own, %s", f.Rule, f.Severity, rule.Severity)
				}
				if f.Place.Line == 0 || f.Place.Field == "" || f.Place.Object == "" || f.Text == "" {
					t.Errorf("a finding without a place or words: %+v", f)
				}
			}
			slices.Sort(got)
			got = slices.Compact(got)
			if d := cmp.Diff(c.want, got); d != "" && len(c.want)+len(got) > 0 {
				t.Errorf("rules (-want +got):\n%s", d)
			}
		})
	}
	if pods < 150 {
		t.Errorf("the corpus has %d pods, want 150 or more", pods)
	}
}

// TestEveryRuleIsInTheCorpus keeps a rule from being there without a claim that
// breaks it.
func TestEveryRuleIsInTheCorpus(t *testing.T) {
	broken := map[string]bool{}
	for _, c := range corpus(t) {
		for _, rule := range c.want {
			broken[rule] = true
		}
	}
	for _, r := range guard.Rules() {
		if !broken[r.Name] {
			t.Errorf("no claim breaks %s", r.Name)
		}
		delete(broken, r.Name)
	}
	for name := range broken {
		t.Errorf("a claim names %s, which is no rule", name)
	}
}

func TestRulesAreDocumented(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range guard.Rules() {
		if seen[r.Name] {
			t.Errorf("two rules are called %s", r.Name)
		}
		seen[r.Name] = true
		if r.Title == "" || r.Doc == "" || r.Source == "" || !strings.HasSuffix(r.Doc, ".") {
			t.Errorf("%s lacks a title, a text that ends, or a source", r.Name)
		}
		if r.Severity > 0 && r.Fix == "" {
			t.Errorf("%s has no fix", r.Name)
		}
	}
}

func TestAFindingIsPlacedWhereItIsWritten(t *testing.T) {
	c := readClaim(t, "testdata/corpus/01-twice-and-the-last-one-names-gpus.yaml")
	found := guard.Scan(c.inventory, nil).Findings
	if len(found) != 1 {
		t.Fatalf("got %d findings, want 1", len(found))
	}
	want := "01-twice-and-the-last-one-names-gpus.yaml:13 spec.containers[0].env[1] of Pod team-a/app, team-a/default"
	f := found[0]
	if got := f.Place.String() + " " + f.Place.Field + " of " + f.Place.Object + ", " + f.Identity; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// FuzzReview holds that no document makes a review fail, and that an exempt
// identity is never found fault with.
func FuzzReview(f *testing.F) {
	files, err := filepath.Glob("testdata/corpus/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for i, file := range files {
		if data, err := os.ReadFile(file); err == nil && i%7 == 0 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, _ := source.Parse(source.File{Name: "f.yaml", Data: data})
		inv := guard.Read(docs)
		guard.Scan(inv, guard.DefaultExemptions())
		for i := range inv.Pods {
			p := &inv.Pods[i]
			if got := guard.Review(p, nil, guard.Exemptions{{Namespace: p.Namespace}}); len(got) > 0 {
				t.Errorf("an exempt pod was found fault with: %v", got)
			}
			guard.Voids(p, nil, nil)
		}
	})
}

// BenchmarkReview is one admission of a pod from its JSON: decoding, review with
// the default exemptions, and the mutation. The pod has 12 containers' worth of
// variables and volumes, as a service mesh leaves them.
func BenchmarkReview(b *testing.B) {
	data, err := os.ReadFile("testdata/review.json")
	if err != nil {
		b.Fatal(err)
	}
	ex := guard.DefaultExemptions()
	facts := &guard.Facts{Labels: map[string]string{"kubernetes.io/metadata.name": "team-a"}}
	b.Run("from JSON", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			docs, _ := source.Parse(source.File{Name: "pod.json", Data: data})
			p := guard.Pods(docs[0])
			if found := guard.Review(&p[0], facts, ex); len(found) != 2 {
				b.Fatalf("got %d findings, want 2", len(found))
			}
			guard.Voids(&p[0], facts, ex)
		}
	})
	docs, _ := source.Parse(source.File{Name: "pod.json", Data: data})
	p := guard.Pods(docs[0])
	b.Run("decoded", func(b *testing.B) {
		for b.Loop() {
			guard.Review(&p[0], facts, ex)
		}
	})
}
