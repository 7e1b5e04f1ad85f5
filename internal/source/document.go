package source

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// add files root under what it is. via names the Terraform block around it.
func (p *parsed) add(file, via string, root *manifest.Node) {
	d := manifest.Document{
		File: file, Via: via, Root: root,
		APIVersion: root.Get("apiVersion").Str(), Kind: root.Get("kind").Str(),
		Namespace: root.At("metadata", "namespace").Str(), Name: root.At("metadata", "name").Str(),
	}
	switch {
	case root.Kind != manifest.Map:
		p.notes = append(p.notes, unknown(d))
	case isList(d):
		p.duplicates(d)
		p.list(d)
	case d.Kind != "" && d.APIVersion != "":
		p.append(d)
	case d.Kind != "" && root.Get("metadata") != nil:
		p.notes = append(p.notes, incomplete(d))
	default:
		p.bare(d)
	}
}

func (p *parsed) append(d manifest.Document) {
	p.duplicates(d)
	d.Again = p.heads.of(d.Root)
	p.docs = append(p.docs, d)
}

// isList recognises kind List and the lists that the API returns, PodList and
// the like; a kind whose own name ends so has no items.
func isList(d manifest.Document) bool {
	items := d.Root.Get("items")
	return strings.HasSuffix(d.Kind, "List") && items != nil && (items.Kind == manifest.List || items.Kind == manifest.Null)
}

// list adds the items of a list. Items of a typed list may leave out kind and
// apiVersion, which are then those of the list.
func (p *parsed) list(d manifest.Document) {
	for _, item := range d.Root.Get("items").Items {
		if item.Kind == manifest.Map && d.Kind != "List" && item.Get("kind") == nil {
			item = &manifest.Node{Kind: manifest.Map, Line: item.Line, Fields: append([]manifest.Field{
				{Name: "apiVersion", Line: item.Line, Value: d.Root.Get("apiVersion")},
				{Name: "kind", Line: item.Line, Value: &manifest.Node{Kind: manifest.String, Line: item.Line, Text: strings.TrimSuffix(d.Kind, "List")}},
			}, item.Fields...)}
		}
		p.item(d, item)
	}
}

// item adds one item; its repeated keys were told with the list's.
func (p *parsed) item(list manifest.Document, item *manifest.Node) {
	one := parsed{heads: p.heads}
	one.add(list.File, list.Via, item)
	p.docs = append(p.docs, one.docs...)
	for _, n := range one.notes {
		if n.Code != "duplicate-key" {
			p.notes = append(p.notes, n)
		}
	}
}

// bare names a document without kind by its shape.
func (p *parsed) bare(d manifest.Document) {
	base := filepath.Base(d.File)
	d.Name = strings.TrimSuffix(base, filepath.Ext(base))
	switch root := d.Root; {
	case root.Get("mig-configs") != nil:
		d.Kind = manifest.KindMIGConfigs
		p.docs = append(p.docs, d) // its decoder speaks of repeated keys
		return
	case isDeviceConfig(root):
		d.Kind = manifest.KindDeviceConfig
		p.docs = append(p.docs, d)
		return
	case isHelmValues(root, base):
		d.Kind = manifest.KindHelmValues
	default:
		p.notes = append(p.notes, unknown(d))
		return
	}
	p.append(d)
}

// isDeviceConfig: version v1, or none, with sections that only the plugin's
// config has.
func isDeviceConfig(root *manifest.Node) bool {
	if v := root.Get("version"); v != nil && v.Str() != "v1" {
		return root.At("sharing", "timeSlicing") != nil || root.At("sharing", "mps") != nil
	}
	for _, section := range []string{"sharing", "flags", "resources", "imex"} {
		if s := root.Get(section); s != nil && s.Kind == manifest.Map && (root.Get("version") != nil || section == "sharing") {
			return true
		}
	}
	return false
}

// chartValues are the top-level values of the device-plugin chart 0.20.0 that
// other charts also have; ownValues are those that name this chart.
var (
	chartValues = []string{
		"affinity", "allowDefaultNamespace", "cdi", "config", "devicePlugin", "fullnameOverride", "gfd", "image", "imagePullSecrets", "mps",
		"nameOverride", "namespaceOverride", "nfd", "nodeSelector", "podAnnotations", "podSecurityContext", "priorityClassName", "resources",
		"runtimeClassName", "securityContext", "selectorLabelsOverride", "tolerations", "updateStrategy",
	}
	ownValues = []string{
		"compatWithCPUManager", "migStrategy", "failOnInitError", "deviceListStrategy", "deviceIDStrategy", "nvidiaDriverRoot",
		"nvidiaDevRoot", "gdrcopyEnabled", "gdsEnabled", "mofedEnabled", "deviceDiscoveryStrategy",
	}
	operatorValues = []string{"operator", "driver", "toolkit", "devicePlugin", "dcgmExporter", "migManager", "mig", "vgpuManager", "nodeStatusExporter", "ccManager"}
)

// isHelmValues goes by the values that only the device-plugin chart has, Kerf's
// or the GPU operator's. Values that any chart may have count when all are this
// chart's and they place its pods, or when the file's name says what it is.
func isHelmValues(root *manifest.Node, base string) bool {
	for _, name := range []string{"map", "default", "fallbackStrategies"} {
		if root.At("config", name) != nil {
			return true
		}
	}
	if root.At("devicePlugin", "config") != nil || root.At("devicePlugin", "enabled") != nil || root.At("controller", "settings") != nil || count(root, ownValues) > 0 || count(root, operatorValues) > 1 {
		return true
	}
	if len(root.Fields) == 0 || count(root, chartValues) < len(root.Fields) {
		return false
	}
	named := strings.Contains(base, "nvdp") || strings.Contains(base, "device-plugin") || strings.Contains(base, "nvidia")
	placed := count(root, []string{"nodeSelector", "tolerations", "affinity"}) > 1
	return named || placed || root.At("config", "name") != nil || root.At("gfd", "enabled") != nil || root.At("nfd", "enabled") != nil
}

// count says how many of root's fields are among names.
func count(root *manifest.Node, names []string) int {
	n := 0
	for _, f := range root.Fields {
		if slices.Contains(names, f.Name) {
			n++
		}
	}
	return n
}

// incomplete speaks of an object without apiVersion.
func incomplete(d manifest.Document) model.Note {
	return model.Note{
		Code: "no-api-version", Severity: model.Error,
		Place: model.Place{File: d.File, Line: d.Root.Line, Object: d.Title(), Field: "apiVersion"},
		Text:  "the object has a kind and no apiVersion, so it was not read",
		Fix:   "add apiVersion, for example v1 for a Pod or karpenter.sh/v1 for a NodePool",
	}
}

// unknown names a document that is nothing we read.
func unknown(d manifest.Document) model.Note {
	note := model.Note{
		Code: "not-a-manifest", Severity: model.Info, Place: model.Place{File: d.File, Line: d.Root.Line},
		Text: "this is neither a Kubernetes object nor a config of the NVIDIA device plugin, so it was not read (" + outline(d.Root) + ")",
	}
	if d.Root.Get("InstanceTypes") != nil {
		note.Text = "this is the answer of aws ec2 describe-instance-types and no manifest, so it was not read here"
		note.Fix = "give it as --instance-types " + d.File
	}
	return note
}

func outline(n *manifest.Node) string {
	if n.Kind != manifest.Map {
		return "a " + n.Kind.String()
	}
	var names []string
	for _, f := range n.Fields[:min(len(n.Fields), 4)] {
		names = append(names, f.Name)
	}
	if len(n.Fields) > len(names) {
		names = append(names, "...")
	}
	if len(names) == 0 {
		return "an empty map"
	}
	return "it has the fields " + strings.Join(names, ", ")
}

// duplicates notes every repeated key of a document, each once.
func (p *parsed) duplicates(d manifest.Document) {
	if !repeats(d.Root) {
		return
	}
	lines := map[string][]int{}
	var paths []string
	for _, dup := range d.Root.Duplicates() {
		if lines[dup.Path] == nil {
			paths = append(paths, dup.Path)
		}
		lines[dup.Path] = append(lines[dup.Path], dup.First, dup.Second)
	}
	for _, path := range paths {
		at := lines[path]
		slices.Sort(at)
		p.notes = append(p.notes, repeated(d, path, slices.Compact(at)))
	}
}

// repeats says, without a word of where, whether a key is repeated below n.
func repeats(n *manifest.Node) bool {
	if n == nil {
		return false
	}
	seen := map[string]bool{}
	for i, f := range n.Fields {
		again := seen[f.Name]
		if len(n.Fields) > 32 {
			seen[f.Name] = true
		} else {
			again = slices.ContainsFunc(n.Fields[:i], func(o manifest.Field) bool { return o.Name == f.Name })
		}
		if again || repeats(f.Value) {
			return true
		}
	}
	return slices.ContainsFunc(n.Items, repeats)
}

func repeated(d manifest.Document, path string, at []int) model.Note {
	note := model.Note{
		Code: "duplicate-key", Severity: model.Warning,
		Place: model.Place{File: d.File, Line: at[0], Object: d.Title(), Field: path}, Also: at[1:],
		Fix: "remove the one that is not meant",
	}
	times := "twice"
	if len(at) > 2 {
		times = strconv.Itoa(len(at)) + " times"
	}
	value := "the last one"
	if n, _ := d.Root.Find(path); n.Str() != "" && len(n.Text) < 60 {
		value = n.Text
	}
	reader := "as Kubernetes' decoder takes the last one; kubectl apply refuses it by default"
	if d.Via != "" {
		reader = "as Terraform's provider takes the last one"
	}
	note.Text = fmt.Sprintf("%s is given %s; %s counts, %s", path, times, value, reader)
	return note
}
