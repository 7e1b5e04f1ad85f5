package demo

import (
	"bytes"
	"strings"
	"testing"
)

// What the summary compares with: Karpenter counts a GPU for every notebook.
func TestKarpenterBuysAGPUForEveryPod(t *testing.T) {
	c, err := compare()
	if err != nil {
		t.Fatal(err)
	}
	if c.unplaced != 0 || c.nodes == 0 || c.price < 1 {
		t.Errorf("%+v; want all 27 pods on nodes of 27 GPUs", c)
	}
}

func TestTheSummarySaysWhatWasSaved(t *testing.T) {
	var out bytes.Buffer
	s := newShow(Config{Out: &out})
	s.line("   1.00s  nodeclaim a  ordered for 1 pods: g4dn.xlarge")
	s.line("   1.00s  pod       a  pending")
	s.summary(tally{nodes: 5, gpus: 32, price: 1}, tally{nodes: 2, gpus: 11, price: 0.4}, comparison{nodes: 8, price: 4})
	s.line("   9.00s  node      a  gone")
	got := out.String()
	for _, want := range []string{"nodeclaim a", "27 pods    5 nodes   32 GPUs", "8 nodes, 4.000 $/h", "saved: 3.000 $/h, 75 %, 2190 $ a month"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
	for _, not := range []string{"pod       a", "gone"} {
		if strings.Contains(got, not) {
			t.Errorf("%q does not belong into\n%s", not, got)
		}
	}
}

func TestBars(t *testing.T) {
	for name, c := range map[string]struct {
		used, all int64
		want      string
	}{
		"no GPUs yet":            {0, 0, "-"},
		"a GPU":                  {1, 1, "[#] 1/1"},
		"seven of ten":           {7, 10, "[#######...] 7/10"},
		"more than can be drawn": {20, 40, "[#####.....] 20/40"},
	} {
		if got := bar(c.used, c.all); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
