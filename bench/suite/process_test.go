package suite

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/kerfdev/kerf/internal/intake"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/source"
)

func TestInputsHoldThePodsThatTheyAreNamedFor(t *testing.T) {
	for name, c := range map[string]struct {
		write  func(io.Writer)
		pods   int
		shapes int
	}{
		"deployments": {func(w io.Writer) { deployments(w, 7, 100) }, 100, 7},
		"dump":        {func(w io.Writer) { dump(w, 400) }, 400, 300},
	} {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			c.write(&text)
			loaded, err := intake.Load([]source.File{{Name: "in.yaml", Data: text.Bytes()}}, intake.Options{})
			if err != nil {
				t.Fatal(err)
			}
			shapes := map[int64]bool{}
			for _, p := range loaded.Snapshot.Pods {
				shapes[p.Spec.Requests[model.CPU]] = true
				if p.Node != "" || len(p.Spec.Refused) > 0 {
					t.Errorf("%s is not pending: node %q, refused %v", p.Name, p.Node, p.Spec.Refused)
				}
			}
			if len(loaded.Snapshot.Pods) != c.pods || len(shapes) != c.shapes {
				t.Errorf("%d pods of %d sizes, want %d of %d", len(loaded.Snapshot.Pods), len(shapes), c.pods, c.shapes)
			}
		})
	}
}

func TestProcessesAreShownAndHeldToTheirMemory(t *testing.T) {
	r := Report{Processes: []Process{{About: "few", Input: 3 << 20, CPU: 1, Wall: 1, MiB: 80}, {About: "many", MiB: 230, CPU: 1, Wall: 1}, {About: "none", Absent: "no bin/kerf"}}}
	for name, text := range map[string]string{"text": r.Text(), "markdown": r.Markdown()} {
		for _, want := range []string{"few", "230", "no bin/kerf", "kerf plan, many: at most 200 MiB, and it is 230"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in the %s\n%s", want, name, text)
			}
		}
	}
}
