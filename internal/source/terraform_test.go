package source

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

func TestTerraformGivesItsManifests(t *testing.T) {
	const podX = `Pod x: {"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`
	tests := map[string]struct {
		files []File
		want  []string
		notes []string
	}{
		"a heredoc keeps the lines of the file": {
			[]File{{"a.tf", []byte("resource \"kubectl_manifest\" \"x\" {\n  yaml_body = <<-YAML\n    apiVersion: v1\n    kind: Pod\n    metadata:\n      name: x\n    a: 1\n    a: 2\n  YAML\n}\n")}},
			[]string{`a.tf:3 Pod x: {"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"a":2}`},
			[]string{"warning duplicate-key a.tf:7,8 a is given twice; 2 counts, as Terraform's provider takes the last one"},
		},
		"what is not known stays as text, also where YAML has no room for braces": {
			[]File{{"a.tf", []byte("resource \"kubectl_manifest\" \"x\" {\n  yaml_body = <<YAML\napiVersion: v1\nkind: Pod\nmetadata: {name: ${var.name}}\nzones: [${local.a}, \"${local.a}-b\", ${module.vpc.zones[0]}]\nYAML\n}\n")}},
			[]string{`a.tf:3 Pod ${var.name}: {"apiVersion":"v1","kind":"Pod","metadata":{"name":"${var.name}"},"zones":["${local.a}","${local.a}-b","${module.vpc.zones[0]}"]}`},
			[]string{
				"info unknown-value a.tf:5 ${var.name} is not known from the files given; it stays as written",
				"info unknown-value a.tf:6 ${local.a} is not known from the files given; it stays as written",
				"info unknown-value a.tf:6 ${module.vpc.zones[0]} is not known from the files given; it stays as written",
			},
		},
		"locals and defaults of the folder's files are known": {
			[]File{
				{"m/a.tf", []byte("resource \"kubectl_manifest\" \"x\" {\n  yaml_body = \"{apiVersion: v1, kind: Pod, metadata: {name: ${local.name}}}\"\n}\n")},
				{"m/b.tf", []byte("locals {\n  name = \"${var.base}-${upper(\"x\")}${1 + 1}\"\n}\nvariable \"base\" {\n  default = \"p\"\n}\n")},
				{"n/c.tf", []byte("locals {\n  name = \"other\"\n}\n")},
			},
			[]string{`m/a.tf:2 Pod p-X2: {"apiVersion":"v1","kind":"Pod","metadata":{"name":"p-X2"}}`},
			nil,
		},
		"a value of several lines does not move those after it": {
			[]File{{"a.tf", []byte("locals {\n  more = \"a: 1\\nb: 2\\n\"\n}\nresource \"kubectl_manifest\" \"x\" {\n  yaml_body = <<-YAML\n    ${local.more}apiVersion: v1\n    kind: Pod\n    metadata: {name: x}\n    c: 1\n    c: 2\n  YAML\n}\n")}},
			[]string{`a.tf:6 Pod x: {"a":1,"b":2,"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"c":2}`},
			[]string{"warning duplicate-key a.tf:9,10 c is given twice; 2 counts, as Terraform's provider takes the last one"},
		},
		"an object in Terraform's own syntax": {
			[]File{{"a.tf", []byte("resource \"kubernetes_manifest\" \"x\" {\n  manifest = {\n    apiVersion = \"v1\"\n    kind       = \"Pod\"\n    metadata = merge({ name = \"x\" }, {})\n  }\n}\n")}},
			[]string{"a.tf:2 " + podX},
			nil,
		},
		"yamlencode, jsonencode and their inverses": {
			[]File{{"a.tf", []byte("resource \"kubectl_manifest\" \"x\" {\n  yaml_body = yamlencode({\n    apiVersion = \"v1\"\n    kind = \"Pod\"\n    metadata = yamldecode(\"name: x\")\n  })\n}\n")}},
			[]string{"a.tf:2 " + podX},
			nil,
		},
		"file() leads to the file, which keeps its own lines": {
			[]File{
				{"m/a.tf", []byte("resource \"kubectl_manifest\" \"x\" {\n  yaml_body = file(\"${path.module}/x.yaml\")\n}\n")},
				{"m/x.yaml", []byte("\napiVersion: v1\nkind: Pod\nmetadata: {name: x}\n")},
			},
			[]string{"m/x.yaml:2 " + podX},
			nil,
		},
		"templatefile() renders a template that was given": {
			[]File{
				{"m/a.tf", []byte("resource \"kubectl_manifest\" \"x\" {\n  yaml_body = templatefile(\"x.yaml\", { name = \"x\" })\n}\n")},
				{"m/x.yaml", []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: \"${name}\"}\n")},
			},
			[]string{"m/a.tf:2 " + podX},
			nil,
		},
		"a file that is not there": {
			[]File{{"a.tf", []byte("resource \"kubectl_manifest\" \"x\" {\n  yaml_body = file(\"x.yaml\")\n}\n")}},
			nil,
			[]string{"warning unknown-value a.tf:2 the manifest of kubectl_manifest.x is ${file(\"x.yaml\")}, which is not known from the files given, so it was not read"},
		},
		"conditions that can be decided are": {
			[]File{{"a.tf", []byte("variable \"gpu\" { default = true }\nresource \"kubectl_manifest\" \"x\" {\n  count = var.gpu ? 1 : 0\n  yaml_body = var.gpu ? \"{apiVersion: v1, kind: Pod, metadata: {name: x}}\" : \"\"\n}\nresource \"kubectl_manifest\" \"y\" {\n  count = var.gpu ? 0 : 1\n  yaml_body = \"\"\n}\n")}},
			[]string{"a.tf:4 " + podX},
			[]string{"info terraform-repeat a.tf:7 kubectl_manifest.y has count 0, so it was not read"},
		},
		"for_each is read once and named": {
			[]File{{"a.tf", []byte("resource \"kubectl_manifest\" \"x\" {\n  for_each = toset([\"a\", \"b\"])\n  yaml_body = \"{apiVersion: v1, kind: Pod, metadata: {name: x}}\"\n}\n")}},
			[]string{"a.tf:3 " + podX},
			[]string{"info terraform-repeat a.tf:2 kubectl_manifest.x has for_each; it is read once, as written"},
		},
		"the JSON form of Terraform": {
			[]File{{"a.tf.json", []byte("{\"locals\": {\"n\": \"x\"},\n \"resource\": {\"kubectl_manifest\": {\"x\": {\n  \"yaml_body\": \"apiVersion: v1\\nkind: Pod\\nmetadata:\\n  name: ${local.n}\\n\"}}}}")}},
			[]string{"a.tf.json:3 " + podX},
			nil,
		},
		"other resources are no concern, except objects in a provider's own fields": {
			[]File{{"a.tf", []byte("provider \"aws\" {}\nresource \"aws_eks_cluster\" \"c\" { name = \"x\" }\nresource \"kubernetes_deployment_v1\" \"d\" {}\n")}},
			nil,
			[]string{"info terraform-resource a.tf:3 kubernetes_deployment_v1.d is written in the Terraform provider's own fields, which are not read"},
		},
		"a definition that needs itself is unknown": {
			[]File{{"a.tf", []byte("locals {\n  a = local.b\n  b = [local.a, local.a]\n}\nresource \"kubectl_manifest\" \"x\" {\n  yaml_body = local.a\n}\n")}},
			nil,
			[]string{
				"info not-a-manifest a.tf:3 this is neither a Kubernetes object nor a config of the NVIDIA device plugin, so it was not read (a list)",
				"info unknown-value a.tf:3 ${local.a} is not known from the files given; it stays as written",
			},
		},
		"a syntax error keeps what stands before it": {
			[]File{{"a.tf", []byte("resource \"kubectl_manifest\" \"x\" {\n  yaml_body = \"{apiVersion: v1, kind: Pod, metadata: {name: x}}\"\n}\nresource \"a\" {{\n")}},
			[]string{"a.tf:2 " + podX},
			[]string{"error syntax a.tf:4 this is not valid Terraform: argument or block definition required; what follows may be missing"},
		},
		"a manifest with a mistake names the line in the heredoc": {
			[]File{{"a.tf", []byte("resource \"kubectl_manifest\" \"x\" {\n  yaml_body = <<-YAML\n    a: 1\n     b: 2\n  YAML\n}\n")}},
			nil,
			[]string{"error syntax a.tf:4 this is not valid YAML, so the document was not read: mapping values are not allowed in this context"},
		},
		"a resource without its manifest": {
			[]File{{"a.tf", []byte("resource \"kubectl_manifest\" \"x\" {}\n")}},
			nil,
			[]string{"error missing-field a.tf:1 kubectl_manifest.x has no yaml_body, so there is nothing to read"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			docs, notes := ParseAll(tt.files)
			if diff := cmp.Diff(tt.want, objects(docs)); diff != "" {
				t.Errorf("documents (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.notes, said(notes)); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

const release = `variable "chart_version" {}
resource "helm_release" "nvdp" {
  name      = "nvdp"
  namespace = "nvidia"
  chart     = "nvidia-device-plugin"
  version   = var.chart_version
  values = [
    <<-EOT
      nodeSelector: {a: b}
      config:
        map:
          default: |
            version: v1
            sharing: {}
    EOT
    , yamlencode({
      nodeSelector = { c = "d" }
      tolerations  = [{ key = "x", operator = "Exists" }]
    }),
    file("values.yaml"),
  ]
  set {
    name  = "gfd.enabled"
    value = true
  }
  set_list {
    name  = "imagePullSecrets"
    value = ["s"]
  }
}
`

func TestTerraformGivesHelmReleases(t *testing.T) {
	docs, notes := ParseAll([]File{{"m/a.tf", []byte(release)}, {"m/values.yaml", []byte("migStrategy: mixed\n")}})
	want := []string{`m/a.tf:2 HelmRelease nvidia/nvdp: {"name":"nvdp","namespace":"nvidia","chart":"nvidia-device-plugin","version":"${var.chart_version}",` +
		`"values":{"nodeSelector":{"a":"b","c":"d"},"config":{"map":{"default":"version: v1\nsharing: {}\n"}},"tolerations":[{"key":"x","operator":"Exists"}],"migStrategy":"mixed"},` +
		`"set":[{"name":"gfd.enabled","value":true},{"name":"imagePullSecrets","value":["s"]}]}`}
	if diff := cmp.Diff(want, objects(docs)); diff != "" {
		t.Fatalf("documents (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"info unknown-value m/a.tf:6 ${var.chart_version} is not known from the files given; it stays as written"}, said(notes)); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if got := docs[0].Via; got != "helm_release.nvdp" {
		t.Errorf("via %q", got)
	}
	lines := map[string]int{}
	values := docs[0].Root.Get("values")
	for _, path := range []string{"nodeSelector.a", "nodeSelector.c", "config.map.default", "tolerations[0].key", "migStrategy"} {
		n, _ := values.Find(path)
		lines[path] = n.LineOf()
	}
	config, _ := Nested(values.At("config", "map", "default"))
	lines["inside the config"] = config.Get("sharing").LineOf()
	wantLines := map[string]int{"nodeSelector.a": 9, "nodeSelector.c": 17, "config.map.default": 12, "tolerations[0].key": 18, "migStrategy": 20, "inside the config": 14}
	if diff := cmp.Diff(wantLines, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestSeedsKeepTheirLines(t *testing.T) {
	files, err := Read([]string{"../../../shared/seeds/manifests"}, nil)
	if err != nil {
		t.Skip("the seeds' manifests are not here: ", err)
	}
	docs, notes := ParseAll(files)
	var kinds []string
	for _, d := range docs {
		kinds = append(kinds, d.Title())
	}
	want := []string{
		"Application argocd/nvidia-device-plugin", "NodePool gpu-nvidia", "Pod nvidia-smi", "Pod default/tensorflow-mnist",
		"Deployment test-gpu-shared", "Deployment test-gpu", "HelmValues nvdp", "Provisioner gpu-shared", "Provisioner gpu",
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
	lines := map[string][]int{}
	for _, n := range notes {
		lines[n.Code+" "+n.Place.Object] = append([]int{n.Place.Line}, n.Also...)
	}
	wantLines := map[string][]int{"duplicate-key Provisioner gpu-shared": {8, 35}, "duplicate-key Provisioner gpu": {8, 34}, "unknown-value ": {29, 31, 33}}
	if diff := cmp.Diff(wantLines, lines); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []struct{ name, text string }{
		{"a.yaml", pod},
		{"a.yaml", bomb()[:200]},
		{"a.yaml", "a: &a {<<: [*a]}"},
		{"a.yaml", "? {a: b}\n: {{ c }}\n"},
		{"a.json", `{"kind":"List","apiVersion":"v1","items":[{"a":1e5}]}`},
		{"a.tf", release},
		{"a.tf", "locals {\n a = [for x in local.a : \"${x}\"]\n}\nresource \"kubectl_manifest\" \"a\" {\n yaml_body = local.a\n}\n"},
		{"a.tf.json", `{"locals":[{"a":"${local.a}"}],"resource":{"kubernetes_manifest":{"b":{"manifest":"${local.a}"}}}}`},
	} {
		f.Add(seed.name, []byte(seed.text))
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		docs, notes := Parse(File{name, data})
		for _, d := range docs {
			checkTree(t, d.Root, 0)
			d.Root.JSON()
		}
		for _, n := range notes {
			if n.Text == "" || n.Code == "" || n.Place.File != name || n.Severity > model.Error {
				t.Errorf("a note without code, text or file: %+v", n)
			}
		}
	})
}

// checkTree fails on values that no reader expects.
func checkTree(t *testing.T, n *manifest.Node, depth int) {
	switch {
	case n == nil:
		t.Fatal("a value is nil")
	case n.Line < 1:
		t.Fatalf("a value has no line: %s", n.JSON())
	case depth > 2*maxDepth:
		t.Fatal("a tree is deeper than allowed")
	}
	for _, f := range n.Fields {
		checkTree(t, f.Value, depth+1)
	}
	for _, item := range n.Items {
		checkTree(t, item, depth+1)
	}
}
