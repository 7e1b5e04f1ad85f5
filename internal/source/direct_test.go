package source

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// odd and ordinary texts: those that are ordinary must not need the library.
var ordinaryTexts = []string{
	pod, deploymentText, "a: 1\nb:\n  c: x\n  d:\n  - 1\n  - e: f\n    g: h\n  -\n    i: j\nk:\n",
	"a: 'it''s'\nb: \"x\\n\\\"y\\\"\"\nc: [1, \"two\", three, -4]\nd: {a: b, 'c': [x, y], e: {}}\ne: []\n",
	"a: |\n  x\n\n   y\nb: |-\n  z\n\n# over\nc: d # remark\n", "message: '0/3 nodes are available:\n  3 Insufficient cpu.'\nnext: some text\n  that goes on\nlast: \"a b\n  c\"\n",
	"on: yes\nb: [n, No]\nc: off\n", "- a\n- b: c\n- - d\n  - e\n-\n- f\n", "a:\n- b\n-\n- c: d\n\n  e: f\n\ng: 1.50\nh: 0777\ni: 0x1F\nj: 1_0\nk: ~\nl: 2026-01-02\nm: .5\nn: -0\n",
	"# first\n\na: b\n# between\nc:\n  # inside\n  d: e\n", "a: http://x/y:z\nb: x:v1\nc: -1\nd: --flag=1\n",
}

const deploymentText = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: |
      {"apiVersion":"apps/v1"}
spec:
  selector:
    matchLabels: {app: web}
  template:
    spec:
      containers:
      - name: main
        args: ["--port", "8080"]
        image: registry.example.com/app:v1
        resources:
          limits:
            nvidia.com/gpu: "1"
      securityContext: {}
status: null
`

// oddTexts are for the library, which may read them or refuse them.
var oddTexts = []string{
	"a: &x 1\nb: *x\n", "a: !!str 1\n", "<<: {a: b}\n", "? a\n: b\n", "a: >\n  x\n  y\n", "a: b: c\n", "a:\n  b: 1\n c: 2\n", "a: |2\n   x\n", "a: |+\n  x\n\n",
	"a: 'x\n\n  y'\n", "a:\tb\n", "a: [1,\n 2]\n", "{a: b}\n", "a: {b, c: }\n", "a: \"\\u00e9\"\n", "text\n", "a: b\n- c\n", "a: |\n  x", "a: \"x\ny\"\n", "... \na: b\n", "a: b\n...\n",
	"a: [b: c]\n", "a: [a,]\n", "a: @b\n", "a: 'b' c\n", "a: b\n  c: d\n", "a: b #c\n  d\n", " a: b\n", "a : b\n", "a: b\r\n", "a: é\u2028b\n", "a: |\n  x\n     \n  y\n",
}

func TestDirectLeavesWhatIsOddToTheLibrary(t *testing.T) {
	for _, text := range ordinaryTexts {
		if _, _, ok := plainly(text, same, &slab{}); !ok {
			t.Errorf("this is ordinary, and the library was asked:\n%s", text)
		}
		agree(t, text)
	}
	for _, text := range oddTexts {
		agree(t, text)
	}
}

func same(line int) int { return line }

// agree holds what is read without the library against what it reads.
func agree(t *testing.T, text string) {
	t.Helper()
	root, r, ok := plainly(text, same, &slab{})
	if !ok {
		return
	}
	want, notes := chunk{text: text}.library(same)
	if len(want) != 1 {
		t.Fatalf("the library reads %d documents and says %v, of\n%s", len(want), notes, text)
	}
	if diff := cmp.Diff(want[0], root); diff != "" {
		t.Errorf("(-library +here), of\n%s\n%s", text, diff)
	}
	if diff := cmp.Diff(notes, r.notes()); diff != "" {
		t.Errorf("notes (-library +here), of\n%s\n%s", text, diff)
	}
}

// A list as kubectl prints it is read item by item, with the same result.
func TestDumpIsReadAsOneDocument(t *testing.T) {
	item := "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n  spec:\n    x: yes\n\n"
	long := strings.Repeat(item, longList)
	tests := map[string]struct {
		text  string
		split bool
	}{
		"as kubectl prints it":        {"apiVersion: v1\nitems:\n" + long + "kind: List\nmetadata:\n  resourceVersion: \"\"\n", true},
		"the items at the end":        {"kind: List\nitems:\n" + long + "# the end\n", true},
		"an odd item":                 {"kind: List\nitems:\n" + long + "- a: >\n    x\n    y\n" + long + "apiVersion: v1\n", true},
		"an anchor":                   {"kind: List\nitems:\n" + long + "- a: &x 1\n- *x\n" + "apiVersion: v1\n", false},
		"a mistake in an item":        {"kind: List\nitems:\n" + long + "- a: 'b\n" + long, false},
		"items twice":                 {"kind: List\nitems:\n" + long + "items: []\n", false},
		"a boolean around the items":  {"kind: List\nitems:\n" + long + "a: on\n", false},
		"something after the list":    {"kind: List\nitems:\n" + long + " a: b\n", false},
		"a text that holds the words": {"kind: 'List\n\nitems:\n" + long + "'\n", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			u, ok := split(tt.text)
			if ok {
				_, _, ok = u.read(same, nil)
			}
			if ok != tt.split {
				t.Errorf("read item by item: %v, want %v", ok, tt.split)
			}
			c := chunk{text: tt.text}
			got, gotNotes := c.parse(same, &slab{}, nil)
			want, wantNotes := c.library(same)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-library +here)\n%s", diff)
			}
			if diff := cmp.Diff(wantNotes, gotNotes); diff != "" {
				t.Errorf("notes (-library +here)\n%s", diff)
			}
		})
	}
}

// FuzzDirect compares documents of all sorts, above all their lines.
func FuzzDirect(f *testing.F) {
	for _, text := range append(ordinaryTexts, oddTexts...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<12 || strings.Contains(text, "---") {
			return // markers have been taken out before
		}
		agree(t, text)
	})
}

// BenchmarkDocument reads one Deployment, without the library and with it.
func BenchmarkDocument(b *testing.B) {
	var s slab
	for name, read := range map[string]func(){
		"direct":  func() { plainly(deploymentText, same, &s) },
		"library": func() { chunk{text: deploymentText}.library(same) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(deploymentText)))
			b.ReportAllocs()
			for b.Loop() {
				read()
			}
		})
	}
}
