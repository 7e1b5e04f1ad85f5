package solve

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write what Solve says into the scenarios")

// Each scenario is a cluster and the plan for it; the file's name is the claim.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios: ", err)
	}
	for _, file := range files {
		name := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".txtar"), "-", " ")
		t.Run(name, func(t *testing.T) { scenario(t, file) })
	}
}

func scenario(t *testing.T, file string) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(ar.Files) == 0 || ar.Files[0].Name != "cluster" {
		t.Fatal("the first file of a scenario is the cluster")
	}
	s := parse(t, string(ar.Files[0].Data))
	p, trace := Solve(s, Options{CPUOnGPU: strings.Contains(string(ar.Comment), "CPUOnGPU")})
	for _, err := range plan.Check(s, p) {
		t.Error("check: ", err)
	}
	got := describe(s, p, trace)
	if *update {
		ar.Files = []txtar.File{ar.Files[0], {Name: "plan", Data: []byte(got)}}
		if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := ""
	if len(ar.Files) > 1 {
		want = string(ar.Files[1].Data)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("plan: -want +got\n%s", diff)
	}
}

// describe writes a plan a line a thing, identical launches in one.
func describe(s model.Snapshot, p plan.Plan, trace model.Trace) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cost %s\n", money(p.Cost))
	lines := map[string]int{}
	var order []string
	for i := range p.Launches {
		l := &p.Launches[i]
		line := fmt.Sprintf("%s %s %s %s %s%s: %s", l.Pool, l.Type, l.CapacityType, strings.Join(l.Zones, "|"), money(l.Price), chosen(s, l), crowdOf(s, l.Pods))
		if lines[line]++; lines[line] == 1 {
			order = append(order, line)
		}
	}
	for _, line := range order {
		fmt.Fprintf(&b, "launch %d x %s\n", lines[line], line)
	}
	for _, bind := range p.Binds {
		fmt.Fprintf(&b, "bind %s: %s\n", bind.Node, crowdOf(s, bind.Pods))
	}
	for _, r := range p.Unplaced {
		fmt.Fprintf(&b, "not placed: %s\n", crowdOf(s, r.Pods))
		for _, v := range r.Verdicts {
			fmt.Fprintf(&b, "  %s\n", verdictLine(v))
			for _, m := range v.Remedy {
				fmt.Fprintf(&b, "    or %s\n", remedyLine(m))
			}
		}
	}
	for _, r := range trace.Relaxed {
		fmt.Fprintf(&b, "relaxed %s %s: %s\n", r.What, r.Key, crowdOf(s, r.Pods))
	}
	return b.String()
}

func money(v float64) string {
	s := strings.TrimRight(fmt.Sprintf("%.4f", v), "0")
	return strings.TrimSuffix(s, ".")
}

// chosen shows the labels of a launch that its pool left open, and its config.
func chosen(s model.Snapshot, l *plan.Launch) string {
	var out []string
	i := slices.IndexFunc(s.Pools, func(p model.Pool) bool { return p.Name == l.Pool })
	for _, k := range slices.Sorted(maps.Keys(l.Labels)) {
		if _, fixed := s.Pools[i].Labels[k]; !fixed && k != model.LabelNodePool {
			out = append(out, k+"="+l.Labels[k])
		}
	}
	if l.Config != "" {
		out = append(out, "config="+l.Config)
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, " ") + ")"
}

// crowdOf names pods with a count, pods of one stem together.
func crowdOf(s model.Snapshot, pods []int) string {
	count := map[string]int{}
	for _, i := range pods {
		name := s.Pods[i].Name
		if cut := strings.LastIndexByte(name, '-'); cut > 0 && strings.Trim(name[cut+1:], "0123456789") == "" {
			name = name[:cut]
		}
		count[name]++
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		if count[name] > 1 {
			name = fmt.Sprintf("%s x%d", name, count[name])
		}
		out = append(out, name)
	}
	return strings.Join(out, ", ")
}

func verdictLine(v model.Verdict) string {
	where := cmp.Or(v.Pool, "anywhere")
	if v.Node != "" {
		where = "node " + v.Node
	}
	out := fmt.Sprintf("%s: %s", where, v.Code)
	if v.Key != "" {
		out += " " + v.Key
	}
	if len(v.Wanted) > 0 {
		out += " wanted " + strings.Join(v.Wanted, ",")
	}
	if len(v.Offered) > 0 {
		offered := v.Offered
		if len(offered) > 6 {
			offered = append(slices.Clone(offered[:6]), "...")
		}
		out += " offered " + strings.Join(offered, ",")
	}
	if v.Asked != 0 || v.Have != 0 {
		out += fmt.Sprintf(" asked %d have %d", v.Asked, v.Have)
	}
	if v.Used != 0 {
		out += fmt.Sprintf(" used %d", v.Used)
	}
	if v.Config != "" {
		out += " config " + v.Config
	}
	if v.Detail != "" {
		out += " (" + v.Detail + ")"
	}
	return out
}

func remedyLine(m model.Remedy) string {
	out := string(m.Kind)
	if m.Key != "" {
		out += " " + m.Key
	}
	if len(m.Values) > 0 {
		out += " " + strings.Join(m.Values, ",")
	}
	if m.Amount != 0 {
		out += fmt.Sprintf(" %d", m.Amount)
	}
	return out
}
