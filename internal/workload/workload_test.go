package workload

import (
	"strings"
	"testing"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/source"
)

// parse reads YAML; what the source objects to fails the test.
func parse(t testing.TB, text string) []manifest.Document {
	t.Helper()
	docs, notes := source.Parse(source.File{Name: "in.yaml", Data: []byte(text)})
	for _, n := range notes {
		if n.Severity == model.Error {
			t.Fatalf("the test's input does not parse: %s: %s", n.Place, n.Text)
		}
	}
	return docs
}

func read(t testing.TB, text string) (Result, []model.Note) {
	t.Helper()
	return Read(parse(t, text), Options{})
}

// pod wraps a pod spec, indented by two, into a Pod.
func pod(spec string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n" + spec
}

// gpus is a pod spec of one container with limits.
func gpus(limits string) string {
	return "  containers:\n  - {name: c, image: i, resources: {limits: {" + limits + "}}}\n"
}

// only returns the one pod of a result.
func only(t testing.TB, r Result) model.Pod {
	t.Helper()
	if len(r.Pods) != 1 {
		t.Fatalf("want one pod, got %d", len(r.Pods))
	}
	return r.Pods[0]
}

// words writes the refusals of a pod as the API server does.
func words(spec *model.PodSpec) []string {
	var out []string
	for _, v := range spec.Refused {
		out = append(out, v.Key+": "+v.Detail)
	}
	return out
}

// say writes notes with their line, for comparing.
func say(notes []model.Note) []string {
	var out []string
	for _, n := range notes {
		s := n.Severity.String() + " " + n.Code + " " + n.Place.String() + " " + n.Place.Field + ": " + n.Text
		if n.Fix != "" {
			s += " -> " + n.Fix
		}
		out = append(out, s)
	}
	return out
}

// with returns the notes of one code.
func with(notes []model.Note, code string) []model.Note {
	var out []model.Note
	for _, n := range notes {
		if n.Code == code {
			out = append(out, n)
		}
	}
	return out
}

func lines(s ...string) string { return strings.Join(s, "\n") + "\n" }
