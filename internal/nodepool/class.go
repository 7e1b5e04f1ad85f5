package nodepool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// A Class is what an AWS node class changes about its nodes.
type Class struct {
	Name    string
	Kubelet model.Kubelet
	// PlainImage is what selects an image of Amazon Linux without an NVIDIA
	// driver, where a name or parameter does so; "" = not known to.
	PlainImage string
	Place      model.Place
}

// templateFields are the fields of a v1alpha1 AWSNodeTemplate that v1 has under the same name.
var templateFields = []string{
	"userData", "amiFamily", "instanceProfile", "tags", "metadataOptions", "blockDeviceMappings",
	"detailedMonitoring", "context",
}

// nodeTemplate upgrades a v1alpha1 AWSNodeTemplate, or a Provisioner's provider,
// to the shape of v1beta1.
func (o *object) nodeTemplate() {
	src := o.root.Get("spec")
	line := lineOr(src, o.root.LineOf())
	spec := mapping(line)
	if src.Get("amiFamily") == nil {
		spec = set(spec, "amiFamily", text(line, "AL2"))
		o.change("spec", "no amiFamily", "amiFamily: AL2, the default of v1alpha1")
	}
	for _, sel := range []struct {
		from, to string
		special  []string
	}{
		{"amiSelector", "amiSelectorTerms", []string{"aws::ids", "aws-ids", "aws::name", "aws::owners"}},
		{"subnetSelector", "subnetSelectorTerms", []string{"aws::ids", "aws-ids"}},
		{"securityGroupSelector", "securityGroupSelectorTerms", []string{"aws::ids", "aws-ids"}},
	} {
		if v := src.Get(sel.from); isMap(v) {
			spec = set(spec, sel.to, o.selectorTerms("spec."+sel.from, v, sel.special))
			o.change("spec."+sel.from, sel.from, sel.to)
		}
	}
	if src != nil {
		for _, f := range src.Fields {
			if slices.Contains(templateFields, f.Name) {
				spec = withField(spec, f)
			}
		}
	}
	o.launchTemplate(src)
	o.unknownFields(src, "spec", append([]string{"amiSelector", "subnetSelector", "securityGroupSelector", "launchTemplate", "apiVersion", "kind"}, templateFields...))
	o.root = mapping(o.root.LineOf(), entry("metadata", o.root.Get("metadata")), entry("spec", spec))
}

// launchTemplate says what a launch template has to be replaced by.
func (o *object) launchTemplate(src *manifest.Node) {
	v := src.Get("launchTemplate")
	if v == nil {
		return
	}
	n := model.Note{
		Code: "not-convertible", Severity: model.Warning, Place: o.placeOf(v),
		Text: fmt.Sprintf("launchTemplate %q cannot be converted: Karpenter has made its own launch templates since v1beta1", v.Str()),
		Fix:  "write what the template holds on the EC2NodeClass: userData, amiSelectorTerms, blockDeviceMappings, securityGroupSelectorTerms, metadataOptions, role or instanceProfile",
	}
	o.blocked = append(o.blocked, n)
}

// selectorTerms makes terms of a v1alpha1 selector: a map of tags with special
// keys for ids, names and owners, each a list with commas.
func (o *object) selectorTerms(path string, n *manifest.Node, keys []string) *manifest.Node {
	special := map[string][]string{}
	tags := mapping(n.LineOf())
	for _, f := range n.Fields {
		if slices.Contains(keys, f.Name) {
			name := strings.TrimLeft(strings.TrimPrefix(f.Name, "aws"), ":-")
			special[name] = commas(f.Value.Str())
			continue
		}
		f.Value = asText(f.Value)
		if f.Value.Str() == "" {
			f.Value = text(n.LineOf(), "*") // "" was the wildcard of v1alpha1
		}
		tags = withField(tags, f)
	}
	if len(tags.Fields) == 0 {
		tags = nil
	}
	if ids := special["ids"]; len(ids) > 0 {
		return o.idTerms(path, n.Line, ids, tags != nil || len(special) > 1)
	}
	out := list(n.Line)
	for _, owner := range orNone(special["owners"]) {
		for _, name := range orNone(special["name"]) {
			out.Items = append(out.Items, mapping(n.Line, optional("name", name, n.Line), optional("owner", owner, n.Line), entry("tags", tags)))
		}
	}
	return out
}

// idTerms selects by id alone: v1 refuses an id together with anything else.
func (o *object) idTerms(path string, line int, ids []string, more bool) *manifest.Node {
	if more {
		o.block(path, "check that the ids alone select what is meant", "v1 takes an id only on its own: the other keys of %s are left out", path)
	}
	out := list(line)
	for _, id := range ids {
		out.Items = append(out.Items, mapping(line, entry("id", text(line, id))))
	}
	return out
}

func optional(name, value string, line int) manifest.Field {
	if value == "" {
		return manifest.Field{}
	}
	return entry(name, text(line, value))
}

func orNone(values []string) []string {
	if len(values) == 0 {
		return []string{""}
	}
	return values
}

func commas(s string) []string {
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// betaClass turns a v1beta1 EC2NodeClass, or what nodeTemplate made, into v1.
func (o *object) betaClass() {
	o.amis()
	line := lineOr(o.root.Get("spec"), o.root.LineOf())
	const hop = "spec.metadataOptions.httpPutResponseHopLimit"
	if at(o.root, hop) == nil {
		o.root = set(o.root, hop, number(line, "2"))
		o.change("spec", "no "+hop+" (default 2)", hop+": 2, since v1 takes 1")
	}
	if at(o.root, "spec.role").Str() == "" && at(o.root, "spec.instanceProfile").Str() == "" {
		o.root = set(o.root, "spec.role", text(line, "KarpenterNodeRole-replace-me"))
		o.blockQuietly("spec", "write the IAM role of your nodes at spec.role, or an instanceProfile",
			"v1 demands a role or an instanceProfile and neither is given: a placeholder is written at spec.role")
	}
	o.networkTerms(line)
}

// networkTerms writes the selectors that v1 demands, where a launch template stood for them.
func (o *object) networkTerms(line int) {
	subnets := at(o.root, "spec.subnetSelectorTerms")
	for _, t := range []struct{ path, id string }{
		{"spec.subnetSelectorTerms", "subnet-replaceme"},
		{"spec.securityGroupSelectorTerms", "sg-replaceme"},
	} {
		if at(o.root, t.path) != nil {
			continue
		}
		term, what := mapping(line, entry("id", text(line, t.id))), "a placeholder is written"
		if tags := discovery(subnets); tags != nil {
			term, what = mapping(tags.Line, entry("tags", tags)), "the karpenter.sh/discovery tag of the subnets is written"
		}
		o.root = set(o.root, t.path, list(line, term))
		o.blockQuietly("spec", "check that "+t.path+" selects what the nodes need",
			"v1 demands %s and none is given: %s", strings.TrimPrefix(t.path, "spec."), what)
	}
}

// discovery returns the tags of the first term when they hold the tag that
// Karpenter's set-up puts on subnets and security groups alike.
func discovery(terms *manifest.Node) *manifest.Node {
	if terms == nil || len(terms.Items) == 0 {
		return nil
	}
	v := terms.Items[0].At("tags", "karpenter.sh/discovery")
	if v == nil {
		return nil
	}
	return mapping(v.Line, entry("karpenter.sh/discovery", v))
}

// amis writes amiSelectorTerms, which v1 demands: an alias takes the place of a
// family without a selector (conversion of AWS provider v1.0).
func (o *object) amis() {
	family, terms := at(o.root, "spec.amiFamily"), at(o.root, "spec.amiSelectorTerms")
	chosen := terms != nil && len(terms.Items) > 0
	switch family.Str() {
	case "":
	case "Ubuntu":
		o.ubuntu(family, chosen)
	case "AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022", "Windows2025":
		if !chosen {
			alias := strings.ToLower(family.Str()) + "@latest"
			o.change("spec.amiFamily", "amiFamily: "+family.Str(), "amiSelectorTerms: [{alias: "+alias+"}]")
			o.root = set(drop(o.root, "spec.amiFamily"), "spec.amiSelectorTerms",
				list(family.Line, mapping(family.Line, entry("alias", text(family.Line, alias)))))
		}
	}
}

// ubuntu replaces the family that v1 no longer has: AL2 boots Ubuntu images the same way.
func (o *object) ubuntu(family *manifest.Node, chosen bool) {
	o.change("spec.amiFamily", "amiFamily: Ubuntu", "amiFamily: AL2, whose user data has the same form")
	fix := "check the amiSelectorTerms: they must select Ubuntu images"
	if !chosen {
		fix = "write amiSelectorTerms that select your Ubuntu image"
		o.root = set(o.root, "spec.amiSelectorTerms", list(family.Line, mapping(family.Line, entry("id", text(family.Line, "ami-replaceme")))))
	}
	o.block("spec.amiFamily", fix, "v1 has no family Ubuntu: AL2 is written")
	if at(o.root, "spec.blockDeviceMappings") == nil {
		ebs := mapping(family.Line, entry("encrypted", &manifest.Node{Kind: manifest.Bool, Line: family.Line, Text: "true"}),
			entry("volumeType", text(family.Line, "gp3")), entry("volumeSize", text(family.Line, "20Gi")))
		device := mapping(family.Line, entry("deviceName", text(family.Line, "/dev/sda1")),
			entry("rootVolume", &manifest.Node{Kind: manifest.Bool, Line: family.Line, Text: "true"}), entry("ebs", ebs))
		o.root = set(o.root, "spec.blockDeviceMappings", list(family.Line, device))
		o.change("spec", "no blockDeviceMappings", "blockDeviceMappings: /dev/sda1 of 20Gi, Ubuntu's default")
	}
	o.root = set(o.root, "spec.amiFamily", text(family.Line, "AL2"))
}

// unmodelled lists the fields of an EC2NodeClass that could change what a pod
// gets and that no plan regards.
var unmodelled = []struct{ name, why string }{
	{"capacityReservationSelectorTerms", "reserved capacity is not modelled: nodes are planned at on-demand and spot prices"},
	{"placementGroupSelector", "placement groups are not modelled"},
	{"networkInterfaces", "network interfaces are not modelled: vpc.amazonaws.com/efa counts as the type has it"},
	{"ipPrefixCount", "prefixes are not modelled: max pods counts as the type has it"},
}

// class reads what an AWS node class says about its nodes.
func (o *object) class() Class {
	spec := o.root.Get("spec")
	c := Class{Name: o.doc.Name, Place: o.place("")}
	if k := spec.Get("kubelet"); k != nil {
		c.Kubelet = o.readKubelet(k)
	}
	c.Kubelet.LocalDisks = spec.Get("instanceStorePolicy").Str() == "RAID0"
	c.Kubelet.RootBytes = rootVolume(spec)
	c.PlainImage = plainImage(spec.Get("amiSelectorTerms"))
	for _, u := range unmodelled {
		if spec.Get(u.name) != nil {
			o.note(model.Info, "not-modelled", "spec."+u.name, "", "%s", u.why)
		}
	}
	o.userData(spec.Get("userData"))
	return c
}

// userData names the settings in user data that would change a node's size.
func (o *object) userData(n *manifest.Node) {
	for _, word := range []string{"max-pods", "maxPods", "kube-reserved", "kubeReserved", "system-reserved", "systemReserved"} {
		if strings.Contains(n.Str(), word) {
			o.note(model.Info, "not-modelled", "spec.userData", "write it under spec.kubelet, where Karpenter counts it too",
				"userData sets %s, which is not read: neither Karpenter nor kerf sees it when it sizes a node", word)
			return
		}
	}
}

// rootVolume returns the size of the volume that holds the kubelet's files, 0
// for the AMI's default. As in the AWS provider 1.15 it is the block device
// marked rootVolume, else the one with the family's device name, else, for
// family Custom, the last.
func rootVolume(spec *manifest.Node) int64 {
	mappings := spec.Get("blockDeviceMappings")
	if mappings == nil {
		return 0
	}
	family := amiFamily(spec)
	size, marked := int64(0), false
	for _, m := range mappings.Items {
		bytes, err := amount(model.EphemeralStorage, m.At("ebs", "volumeSize").Str())
		if err != nil {
			continue
		}
		root := m.Get("rootVolume").Str() == "true"
		if root || !marked && (family == "custom" || m.Get("deviceName").Str() == rootDevice(family)) {
			size = bytes
		}
		marked = marked || root
	}
	return size
}

// plainImage returns the first name or parameter that selects the standard
// variant of EKS's Amazon Linux image, unless another term selects more.
func plainImage(terms *manifest.Node) string {
	if terms == nil {
		return ""
	}
	first := ""
	for _, t := range terms.Items {
		image := t.Get("ssmParameter").Str() + t.Get("name").Str()
		plain := strings.Contains(image, "/standard/") || strings.Contains(image, "-standard-") || strings.Contains(image, "/amazon-linux-2/")
		if !plain {
			return ""
		}
		if first == "" {
			first = image
		}
	}
	return first
}

// amiFamily is the family that amiFamily or the alias names, in lower case.
func amiFamily(spec *manifest.Node) string {
	family := spec.Get("amiFamily").Str()
	if terms := spec.Get("amiSelectorTerms"); family == "" && terms != nil {
		for _, t := range terms.Items {
			family, _, _ = strings.Cut(t.Get("alias").Str(), "@")
		}
	}
	return strings.ToLower(family)
}

func rootDevice(family string) string {
	switch {
	case family == "bottlerocket":
		return "/dev/xvdb"
	case strings.HasPrefix(family, "windows"):
		return "/dev/sda1"
	}
	return "/dev/xvda"
}

// readKubelet reads the kubelet settings that change what a node has to give.
func (o *object) readKubelet(n *manifest.Node) model.Kubelet {
	k := model.Kubelet{
		MaxPods:        o.count(n.Get("maxPods")),
		PodsPerCore:    o.count(n.Get("podsPerCore")),
		KubeReserved:   o.reserved(n.Get("kubeReserved")),
		SystemReserved: o.reserved(n.Get("systemReserved")),
	}
	if e := n.Get("evictionHard"); isMap(e) && len(e.Fields) > 0 {
		k.EvictionHard = map[string]string{}
		for _, f := range e.Fields {
			k.EvictionHard[f.Name] = f.Value.Str()
		}
	}
	return k
}

func (o *object) count(n *manifest.Node) int64 {
	if n == nil {
		return 0
	}
	v, err := amount("", n.Str())
	if err != nil || v < 0 {
		o.noteNode(model.Warning, "not-modelled", n, "write a whole number",
			"%q is not a whole number; expressions (gate NodeClassCEL) are not modelled, so the default is taken", n.Str())
		return 0
	}
	return v
}

func (o *object) reserved(n *manifest.Node) model.Resources {
	out, bad := amounts(n)
	for _, name := range bad {
		o.noteNode(model.Warning, "not-modelled", n.Get(name), "write a quantity such as 100m or 1Gi",
			"%q is not a quantity; expressions (gate NodeClassCEL) are not modelled, so the default is taken", n.Get(name).Str())
	}
	delete(out, "pid")
	if len(out) == 0 {
		return nil
	}
	return out
}
