package source

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// objects tells what was read: where, what, and the content as JSON.
func objects(docs []manifest.Document) []string {
	var out []string
	for _, d := range docs {
		out = append(out, fmt.Sprintf("%s:%d %s: %s", d.File, d.Root.Line, d.Title(), d.Root.JSON()))
	}
	return out
}

// said tells the notes: severity, code, lines and text.
func said(notes []model.Note) []string {
	var out []string
	for _, n := range notes {
		lines := fmt.Sprint(n.Place.Line)
		for _, l := range n.Also {
			lines += fmt.Sprintf(",%d", l)
		}
		out = append(out, fmt.Sprintf("%s %s %s:%s %s", n.Severity, n.Code, n.Place.File, lines, n.Text))
	}
	return out
}

func TestYAMLMeansWhatKubernetesMakesOfIt(t *testing.T) {
	tests := map[string]struct{ yaml, want string }{
		"words of YAML 1.1 are booleans":           {"[yes, No, ON, off, y, N, true, False]", `[true,false,true,false,true,false,true,false]`},
		"a quoted word is a word":                  {`["yes", 'no', "true"]`, `["yes","no","true"]`},
		"a tagged word is a word":                  {`[!!str yes, !!str 1]`, `["yes","1"]`},
		"octal, hexadecimal and binary are read":   {"[0777, 0o17, 0x1F, 0b101, -010]", `[511,15,31,5,-8]`},
		"underscores in numbers are dropped":       {"[1_000, 1_0.5]", `[1000,10.5]`},
		"floats are written as JSON does":          {"[1.50, 1e3, .5, 1e30, -0.0]", `[1.5,1000,0.5,1e+30,-0]`},
		"large integers keep every digit":          {"[18446744073709551615, 9007199254740993]", `[18446744073709551615,9007199254740993]`},
		"infinity and not-a-number stay text":      {"[.inf, -.inf, .nan]", `[".inf","-.inf",".nan"]`},
		"dates and times of day stay text":         {"[2026-01-02, 10:30, 2026-01-02T03:04:05Z]", `["2026-01-02","10:30","2026-01-02T03:04:05Z"]`},
		"null has four spellings":                  {"[null, ~, Null, ]", `[null,null,null]`},
		"keys that are no text become text":        {"{1: a, 1.5: b, true: c, yes: d}", `{"1":"a","1.5":"b","true":"d"}`},
		"a merge gives way to what is written":     {"{a: &a {x: 1, z: 2}, b: {<<: *a, z: 3}}", `{"a":{"x":1,"z":2},"b":{"x":1,"z":3}}`},
		"of several merges the first counts":       {"{a: &a {x: 1}, b: &b {x: 2, z: 4}, c: {<<: [*a, *b]}}", `{"a":{"x":1},"b":{"x":2,"z":4},"c":{"x":1,"z":4}}`},
		"an alias may stand for a key":             {"{&k name: a, b: {*k : c}}", `{"name":"a","b":{"name":"c"}}`},
		"a quoted << is a text":                    {`{"a": "<<"}`, `{"a":"\u003c\u003c"}`},
		"a block text keeps its lines":             {"{a: 1}\n", `{"a":1}`},
		"text with marks of other languages stays": {`["{{ x }}", "${y}"]`, `["{{ x }}","${y}"]`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			roots, notes := parseYAML(tt.yaml, func(line int) int { return line }, nil)
			for _, n := range notes {
				if n.Severity > model.Info {
					t.Errorf("unexpected note: %s", n.Text)
				}
			}
			if len(roots) != 1 {
				t.Fatalf("%d documents, want 1", len(roots))
			}
			if diff := cmp.Diff(tt.want, string(roots[0].JSON())); diff != "" {
				t.Errorf("JSON (-want +got):\n%s", diff)
			}
		})
	}
}

const pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n"

func TestParseFindsEveryDocument(t *testing.T) {
	const podA = `Pod a: {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`
	tests := map[string]struct {
		name, text string
		want       []string
	}{
		"several documents, comments and directives between them": {
			"f.yaml", "# head\n---\n# nothing\n---\n%YAML 1.1\n---\n" + pod + "---\n" + pod + "...\n",
			[]string{"f.yaml:7 " + podA, "f.yaml:12 " + podA},
		},
		"content on the line of the marker": {
			"f.yaml", "--- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n", []string{"f.yaml:1 " + podA},
		},
		"a marker inside a block text is text": {
			"f.yaml", pod + "data: |\n  ---\n  x\n", []string{`f.yaml:1 Pod a: {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"data":"---\nx\n"}`},
		},
		"Windows line ends and a byte order mark": {
			"f.yaml", "\xef\xbb\xbf" + strings.ReplaceAll("---\n"+pod, "\n", "\r\n"), []string{"f.yaml:2 " + podA},
		},
		"a List as kubectl prints it, and lists in it": {
			"f.yaml", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod, metadata: {name: a}}]}\n",
			[]string{"f.yaml:4 " + podA, "f.yaml:7 " + podA},
		},
		"a typed list whose items leave out their kind": {
			"f.json", "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\n\"items\":[\n{\"metadata\":{\"name\":\"a\"}}]}", []string{"f.json:3 " + podA},
		},
		"an empty list": {"f.yaml", "apiVersion: v1\nkind: List\nitems: []\n", nil},
		"JSON objects one after the other": {
			"f.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}` + "\n\t" + `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`,
			[]string{"f.json:1 " + podA, "f.json:2 " + podA},
		},
		"JSON on standard input": {"-", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`, []string{"-:1 " + podA}},
		"JSON in a file called YAML": {
			"f.yaml", "{\n\t\"apiVersion\":\"v1\",\n\t\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"}}", []string{"f.yaml:1 " + podA},
		},
		"nothing at all": {"f.yaml", "\n# only a comment\n", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			docs, notes := Parse(File{tt.name, []byte(tt.text)})
			if diff := cmp.Diff(tt.want, objects(docs)); diff != "" {
				t.Errorf("documents (-want +got):\n%s", diff)
			}
			if len(notes) > 0 {
				t.Errorf("unexpected notes: %q", said(notes))
			}
		})
	}
}

func TestParseNamesWhatItCannotRead(t *testing.T) {
	tests := map[string]struct {
		name, text string
		docs       int
		want       []string
	}{
		"a tab costs its own document only": {
			"f.yaml", "kind: Pod\nmetadata:\n\tname: x\n---\n" + pod, 1,
			[]string{"error syntax f.yaml:3 this is not valid YAML, so the document was not read: found character that cannot start any token"},
		},
		"the line of a wrong indentation, not that of the block": {
			"f.yaml", pod + "spec:\n  a: 1\n b: 2\n", 0,
			[]string{"error syntax f.yaml:7 this is not valid YAML, so the document was not read: did not find expected key"},
		},
		"a quote that is never closed is named where it opens": {
			"f.yaml", pod + "a: 'x\nb: 1\nc: 2\n", 0,
			[]string{"error syntax f.yaml:5 this is not valid YAML, so the document was not read: found unexpected end of stream"},
		},
		"a repeated key, with both lines and the value that counts": {
			"f.yaml", pod + "spec:\n  a: 1\n  b: 2\n  a: 3\n", 1,
			[]string{"warning duplicate-key f.yaml:6,8 spec.a is given twice; 3 counts, as Kubernetes' decoder takes the last one; kubectl apply refuses it by default"},
		},
		"a key repeated more often is one note": {
			"f.yaml", pod + "a: 1\na: 1\na: {b: c}\n", 1,
			[]string{"warning duplicate-key f.yaml:5,6,7 a is given 3 times; the last one counts, as Kubernetes' decoder takes the last one; kubectl apply refuses it by default"},
		},
		"a repeated key in a list's item is told once": {
			"f.json", "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\n\"x\":1,\n\"x\":2}]}", 1,
			[]string{"warning duplicate-key f.json:3,4 items[0].x is given twice; 2 counts, as Kubernetes' decoder takes the last one; kubectl apply refuses it by default"},
		},
		"a word that is a boolean": {
			"f.yaml", pod + "a: yes\nb: off\n", 1,
			[]string{"info yaml-boolean f.yaml:5,6 yes without quotes is the boolean true to Kubernetes, as in YAML 1.1"},
		},
		"a template with a control line": {
			"f.yaml", "kind: Pod\n{{- if .x }}\na: b\n{{- end }}\n", 0,
			[]string{"warning helm-template f.yaml:2 this is a template with {{ }} and no manifest yet, so it was not read"},
		},
		"a template that happens to be YAML": {
			"f.yaml", pod + "spec:\n  replicas: {{ .Values.n }}\n", 0,
			[]string{"warning helm-template f.yaml:6 this is a template with {{ }} and no manifest yet, so it was not read"},
		},
		"an alias inside its own value": {
			"f.yaml", "a: &a\n  b: *a\n", 0, []string{"error alias f.yaml:2 the alias *a stands inside the value that it names, so the document was not read"},
		},
		"an alias bomb": {
			"f.yaml", bomb(), 0, []string{"error alias f.yaml:6 aliases expand this document to more than 200,000 values, so the document was not read"},
		},
		"a list as a key": {
			"f.yaml", "? [a, b]\n: c\n", 0, []string{"error syntax f.yaml:1 a list or a map is used as a key, so the document was not read"},
		},
		"a merge of what is no map": {
			"f.yaml", "a: {<<: [1]}\n", 0, []string{"error syntax f.yaml:1 a merge key << must be given a map or a list of maps, so the document was not read"},
		},
		"values nested beyond reason": {
			"f.json", strings.Repeat("[", 600), 0, []string{"error syntax f.json:1 this is not valid JSON, so nothing from here on was read: values are nested more than 500 deep"},
		},
		"JSON keeps what stands before the mistake": {
			"f.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}` + "\n{\"a\": }", 1,
			[]string{"error syntax f.json:2 this is not valid JSON, so nothing from here on was read: '}' where a value should stand"},
		},
		"a file that ends too early": {
			"f.json", "{\"a\":\n[1,", 0, []string{"error syntax f.json:2 this is not valid JSON, so nothing from here on was read: the text ends where a value should stand"},
		},
		"an object without apiVersion": {
			"f.yaml", "kind: Pod\nmetadata: {name: a}\n", 0, []string{"error no-api-version f.yaml:1 the object has a kind and no apiVersion, so it was not read"},
		},
		"a file of another program": {
			"f.yaml", "services: {web: {}}\nversion: '3'\n", 0,
			[]string{"info not-a-manifest f.yaml:1 this is neither a Kubernetes object nor a config of the NVIDIA device plugin, so it was not read (it has the fields services, version)"},
		},
		"a list of nothing known": {
			"f.json", "[1]", 0, []string{"info not-a-manifest f.json:1 this is neither a Kubernetes object nor a config of the NVIDIA device plugin, so it was not read (a list)"},
		},
		"instance types where manifests are wanted": {
			"f.json", `{"InstanceTypes": []}`, 0,
			[]string{"info not-a-manifest f.json:1 this is the answer of aws ec2 describe-instance-types and no manifest, so it was not read here"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			docs, notes := Parse(File{tt.name, []byte(tt.text)})
			if len(docs) != tt.docs {
				t.Errorf("documents: %q, want %d", objects(docs), tt.docs)
			}
			if diff := cmp.Diff(tt.want, said(notes)); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

// bomb is a billion laughs.
func bomb() string {
	var b strings.Builder
	b.WriteString("a: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	return b.String()
}

func TestParseTellsFilesWithoutKindByTheirShape(t *testing.T) {
	tests := map[string]struct{ name, text, want string }{
		"configs of the chart":                 {"values.yaml", "config: {map: {a: 'version: v1'}}", manifest.KindHelmValues},
		"a config by name, placed":             {"values.yaml", "config: {name: cm}\nnodeSelector: {a: b}", manifest.KindHelmValues},
		"a value that only this chart has":     {"values.yaml", "migStrategy: mixed\nfoo: bar", manifest.KindHelmValues},
		"only placement, two fields":           {"values.yaml", "nodeSelector: {a: b}\ntolerations: []", manifest.KindHelmValues},
		"only placement, named for the plugin": {"nvdp-values.yaml", "nodeSelector: {a: b}", manifest.KindHelmValues},
		"the GPU operator's values":            {"values.yaml", "driver: {enabled: false}\ndevicePlugin: {config: {name: x}}", manifest.KindHelmValues},
		"values of some other chart":           {"values.yaml", "replicaCount: 1\nnodeSelector: {}\ntolerations: []", ""},
		"one placement field alone":            {"values.yaml", "nodeSelector: {a: b}", ""},
		"a config of the plugin":               {"dp.yaml", "version: v1\nflags: {migStrategy: none}", manifest.KindDeviceConfig},
		"a config without its version":         {"dp.yaml", "sharing: {timeSlicing: {resources: []}}", manifest.KindDeviceConfig},
		"a config of a version there is not":   {"dp.yaml", "version: v2\nsharing: {timeSlicing: {resources: []}}", manifest.KindDeviceConfig},
		"a compose file has a version too":     {"c.yaml", "version: '3'\nservices: {}", ""},
		"MIG layouts":                          {"mig.yaml", "version: v1\nmig-configs: {a: []}", manifest.KindMIGConfigs},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			docs, notes := Parse(File{tt.name, []byte(tt.text)})
			got := ""
			if len(docs) == 1 {
				got = docs[0].Kind
			}
			if got != tt.want || (got == "") != (len(notes) == 1) {
				t.Errorf("kind %q with notes %q, want %q", got, said(notes), tt.want)
			}
		})
	}
}

func TestNestedKeepsTheLinesOfTheFile(t *testing.T) {
	docs, _ := Parse(File{"f.yaml", []byte("apiVersion: v1\nkind: ConfigMap\ndata:\n  block: |\n    # why\n    a:\n      b: 1\n  quoted: \"a:\\n  b: 1\\n\"\n  bad: |\n    a: 1\n     b: 2\n  none: ''\n")})
	data := docs[0].Root.Get("data")
	for name, want := range map[string]int{"block": 7, "quoted": 8} {
		root, notes := Nested(data.Get(name))
		if got := root.At("a", "b").LineOf(); got != want || len(notes) > 0 {
			t.Errorf("%s: line %d, want %d; notes %q", name, got, want, said(notes))
		}
	}
	if root, notes := Nested(data.Get("bad")); root != nil || len(notes) != 1 || notes[0].Place.Line != 11 {
		t.Errorf("bad: %v, %q, want one note on line 11", root, said(notes))
	}
	if root, notes := Nested(data.Get("none")); root != nil || notes != nil {
		t.Errorf("none: %v, %v, want nothing", root, notes)
	}
}
