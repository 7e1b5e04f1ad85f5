package nodepool

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// census says of every field of Karpenter's specs what becomes of it: "modelled"
// with the noun that holds it, "irrelevant" to a plan made once with the reason,
// or "noted" when it is not modelled and its use is named. Fields below one that
// is not modelled share its fate. A new version of Karpenter with a field that
// is not listed fails the test.
var census = map[string]map[string]string{
	"nodepools": {
		"template.metadata.labels":                "modelled: Pool.Labels",
		"template.metadata.annotations":           "modelled: Pool.Annotations",
		"template.spec.requirements[].key":        "modelled: Requirement.Key",
		"template.spec.requirements[].operator":   "modelled: Requirement.Operator",
		"template.spec.requirements[].values[]":   "modelled: Requirement.Values",
		"template.spec.requirements[].minValues":  "modelled: Requirement.MinValues",
		"template.spec.taints[].key":              "modelled: Taint.Key",
		"template.spec.taints[].value":            "modelled: Taint.Value",
		"template.spec.taints[].effect":           "modelled: Taint.Effect",
		"template.spec.taints[].timeAdded":        "irrelevant: the kubelet counts tolerationSeconds from it, the scheduler does not read it",
		"template.spec.startupTaints[].key":       "modelled: Pool.StartupTaints",
		"template.spec.startupTaints[].value":     "modelled: Pool.StartupTaints",
		"template.spec.startupTaints[].effect":    "modelled: Pool.StartupTaints",
		"template.spec.startupTaints[].timeAdded": "irrelevant: as on taints",
		"template.spec.nodeClassRef.group":        "modelled: decides whose label rules hold",
		"template.spec.nodeClassRef.kind":         "modelled: Pool.NodeClass",
		"template.spec.nodeClassRef.name":         "modelled: Pool.NodeClass",
		"template.spec.expireAfter":               "modelled: Disruption.ExpireAfter",
		"template.spec.terminationGracePeriod":    "irrelevant: how long a drain may take, after the plan",
		"disruption.consolidationPolicy":          "modelled: Disruption.Policy",
		"disruption.consolidateAfter":             "modelled: Disruption.ConsolidateAfter",
		"disruption.budgets[].nodes":              "irrelevant: how many nodes may go at once, after the plan",
		"disruption.budgets[].reasons[]":          "irrelevant: as budgets",
		"disruption.budgets[].schedule":           "irrelevant: as budgets",
		"disruption.budgets[].duration":           "irrelevant: as budgets",
		"limits":                                  "modelled: Pool.Limits",
		"weight":                                  "modelled: Pool.Weight",
		"replicas":                                "modelled: Pool.Static and Pool.Replicas",
	},
	"nodeclaims": {
		"requirements[].key":        "modelled: Node.Labels, where one value is left",
		"requirements[].operator":   "modelled: as key",
		"requirements[].values[]":   "modelled: as key",
		"requirements[].minValues":  "irrelevant: the instance has been chosen or will be chosen by Karpenter",
		"resources.requests":        "irrelevant: status.allocatable says what the node gives",
		"taints[].key":              "modelled: Node.Taints",
		"taints[].value":            "modelled: Node.Taints",
		"taints[].effect":           "modelled: Node.Taints",
		"taints[].timeAdded":        "irrelevant: the scheduler does not read it",
		"startupTaints[].key":       "irrelevant: they are gone before pods start",
		"startupTaints[].value":     "irrelevant: as key",
		"startupTaints[].effect":    "irrelevant: as key",
		"startupTaints[].timeAdded": "irrelevant: as key",
		"nodeClassRef.group":        "modelled: Origin.Class",
		"nodeClassRef.kind":         "modelled: Origin.Class",
		"nodeClassRef.name":         "modelled: Origin.Class",
		"expireAfter":               "irrelevant: the plan is for now",
		"terminationGracePeriod":    "irrelevant: how long a drain may take",
	},
	"nodeoverlays": {
		"requirements[].key":      "modelled: Overlay.Requirements",
		"requirements[].operator": "modelled: Overlay.Requirements",
		"requirements[].values[]": "modelled: Overlay.Requirements",
		"price":                   "modelled: Overlay.Price",
		"priceAdjustment":         "modelled: Overlay.PriceAdjustment",
		"capacity":                "modelled: Overlay.Capacity",
		"weight":                  "modelled: Overlay.Weight",
	},
	"ec2nodeclasses": {
		"kubelet":                          "modelled: Class.Kubelet; what else it holds changes nothing of a node's size",
		"blockDeviceMappings":              "modelled: Kubelet.RootBytes",
		"instanceStorePolicy":              "modelled: Kubelet.LocalDisks",
		"capacityReservationSelectorTerms": "noted",
		"placementGroupSelector":           "noted",
		"networkInterfaces":                "noted",
		"ipPrefixCount":                    "noted",
		"userData":                         "noted: where it sets what would change a node's size",
		"amiFamily":                        "irrelevant: the image does not change where a pod may run",
		"amiSelectorTerms":                 "irrelevant: as amiFamily",
		"subnetSelectorTerms":              "irrelevant: which subnets exist is known to the account alone; every zone of the region is assumed",
		"securityGroupSelectorTerms":       "irrelevant: network rules",
		"associatePublicIPAddress":         "irrelevant: network",
		"connectionTracking":               "irrelevant: network",
		"context":                          "irrelevant: reserved by EC2",
		"cpuOptions":                       "irrelevant: nested virtualization",
		"detailedMonitoring":               "irrelevant: metrics",
		"enclaveOptions":                   "irrelevant: enclaves",
		"instanceProfile":                  "irrelevant: identity",
		"role":                             "irrelevant: identity",
		"metadataOptions":                  "irrelevant: metadata service",
		"tags":                             "irrelevant: tags of EC2 resources",
	},
}

func TestEveryFieldOfASpecIsAccountedFor(t *testing.T) {
	for name, fates := range census {
		t.Run(name, func(t *testing.T) {
			data, err := schemaFiles.ReadFile("schemas/" + name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var props apiextensionsv1.JSONSchemaProps
			if err := json.Unmarshal(data, &props); err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			visit(props.Properties["spec"], "", func(path string) bool {
				if fates[path] != "" {
					seen[path] = true
				}
				return fates[path] == ""
			}, func(leaf string) { t.Errorf("spec.%s is not accounted for", leaf) })
			for _, path := range slices.Sorted(maps.Keys(fates)) {
				if !seen[path] {
					t.Errorf("spec.%s is accounted for and does not exist", path)
				}
				if fate, _, _ := strings.Cut(fates[path], ":"); !slices.Contains([]string{"modelled", "irrelevant", "noted"}, fate) {
					t.Errorf("spec.%s: %q is no fate", path, fates[path])
				}
			}
		})
	}
}

// visit walks a schema: open reports whether to go below a path, and leaf is
// called for the paths below which there is nothing.
func visit(s apiextensionsv1.JSONSchemaProps, path string, open func(string) bool, leaf func(string)) {
	if path != "" && !open(path) {
		return
	}
	switch {
	case len(s.Properties) > 0:
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			visit(s.Properties[name], strings.TrimPrefix(path+"."+name, "."), open, leaf)
		}
	case s.Items != nil && s.Items.Schema != nil:
		visit(*s.Items.Schema, path+"[]", open, leaf)
	default:
		leaf(path)
	}
}

// TestNotedFields proves that the fields marked as noted are.
func TestNotedFields(t *testing.T) {
	values := map[string]string{
		"capacityReservationSelectorTerms": "[{id: cr-1}]",
		"placementGroupSelector":           "{name: p}",
		"networkInterfaces":                "[{networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}]",
		"ipPrefixCount":                    "2",
		"userData":                         `"--kubelet-extra-args --max-pods=20"`,
	}
	for field, fate := range census["ec2nodeclasses"] {
		if !strings.HasPrefix(fate, "noted") {
			continue
		}
		_, notes := Read(parse(t, `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
  `+field+": "+values[field]+"\n"))
		if len(notes) != 1 || notes[0].Code != "not-modelled" || notes[0].Place.Field != "spec."+field || notes[0].Place.Line != 9 {
			t.Errorf("%s: said %q", field, said(notes))
		}
	}
}
