package nodepool

import (
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

const (
	labelCategory     = "karpenter.k8s.aws/instance-category"
	labelFamily       = "karpenter.k8s.aws/instance-family"
	labelGeneration   = "karpenter.k8s.aws/instance-generation"
	labelManufacturer = "karpenter.k8s.aws/instance-gpu-manufacturer"
)

// A span says what values a well-known label can have.
type span struct {
	lower   bool     // no value has a capital letter
	integer bool     // every value is a whole number
	set     []string // these and no others
}

// wellKnown holds the labels of Karpenter 1.15 and of its AWS provider that a
// requirement may name, with what is sure about their values.
var wellKnown = map[string]span{
	model.LabelCapacityType:                       {set: []string{model.OnDemand, model.Spot, model.Reserved}},
	model.LabelArch:                               {set: []string{"amd64", "arm64"}},
	model.LabelOS:                                 {set: []string{"linux", "windows"}},
	model.LabelInstanceType:                       {lower: true},
	model.LabelZone:                               {lower: true},
	model.LabelRegion:                             {lower: true},
	"topology.k8s.aws/zone-id":                    {lower: true},
	"node.kubernetes.io/windows-build":            {},
	labelCategory:                                 {lower: true},
	labelFamily:                                   {lower: true},
	labelGeneration:                               {integer: true},
	labelManufacturer:                             {lower: true},
	"karpenter.k8s.aws/capacity-reservation-id":   {},
	"karpenter.k8s.aws/capacity-reservation-type": {set: []string{"default", "capacity-block"}},
	"karpenter.k8s.aws/capacity-reservation-interruptible":       {set: boolean},
	"karpenter.k8s.aws/ec2nodeclass":                             {},
	"karpenter.k8s.aws/instance-encryption-in-transit-supported": {set: boolean},
	"karpenter.k8s.aws/instance-hypervisor":                      {lower: true},
	"karpenter.k8s.aws/instance-local-nvme":                      {integer: true},
	"karpenter.k8s.aws/instance-size":                            {lower: true},
	"karpenter.k8s.aws/instance-cpu":                             {integer: true},
	"karpenter.k8s.aws/instance-cpu-manufacturer":                {lower: true},
	"karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz":   {integer: true},
	"karpenter.k8s.aws/instance-memory":                          {integer: true},
	"karpenter.k8s.aws/instance-ebs-bandwidth":                   {integer: true},
	"karpenter.k8s.aws/instance-network-bandwidth":               {integer: true},
	"karpenter.k8s.aws/instance-gpu-name":                        {lower: true},
	"karpenter.k8s.aws/instance-gpu-count":                       {integer: true},
	"karpenter.k8s.aws/instance-gpu-memory":                      {integer: true},
	"karpenter.k8s.aws/instance-accelerator-name":                {lower: true},
	"karpenter.k8s.aws/instance-accelerator-manufacturer":        {lower: true},
	"karpenter.k8s.aws/instance-accelerator-count":               {integer: true},
	"karpenter.k8s.aws/instance-capability-flex":                 {set: boolean},
	"karpenter.k8s.aws/instance-tenancy":                         {set: []string{"default", "dedicated"}},
	"karpenter.k8s.aws/placement-group-id":                       {},
	"karpenter.k8s.aws/placement-group-partition":                {integer: true},
}

var boolean = []string{"true", "false"}

// impossible says why no node can have the value, and which value is meant.
// Both are empty when a node might have it.
func impossible(key, value string) (why, meant string) {
	k, known := wellKnown[key]
	switch {
	case !known || strings.Contains(value, "${"):
		return "", ""
	case len(k.set) > 0 && !slices.Contains(k.set, value):
		return "its values are " + strings.Join(k.set, ", "), meantOf(value, k.set)
	case k.integer:
		if _, err := strconv.ParseUint(value, 10, 63); err != nil {
			return "its values are whole numbers", ""
		}
	case k.lower && strings.ToLower(value) != value:
		return "its values are in lower case", strings.ToLower(value)
	}
	return "", ""
}

// synonyms are the other words for values that people use.
var synonyms = map[string]string{"x86_64": "amd64", "x86-64": "amd64", "x64": "amd64", "aarch64": "arm64", "ondemand": model.OnDemand}

func meantOf(value string, set []string) string {
	low := strings.ToLower(strings.ReplaceAll(value, "_", "-"))
	if s, ok := synonyms[strings.ToLower(value)]; ok && slices.Contains(set, s) {
		return s
	}
	if slices.Contains(set, low) {
		return low
	}
	return manifest.Nearest(low, set)
}

// nearestLabel returns the well-known label that key, of one of Karpenter's own
// domains, is a misspelling of; "" when none is near.
func nearestLabel(key string) string {
	domain, name, ok := strings.Cut(key, "/")
	if !ok || (domain != coreGroup && domain != awsGroup) {
		return ""
	}
	var names []string
	for k := range wellKnown {
		if n, ok := strings.CutPrefix(k, domain+"/"); ok {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	if near := manifest.Nearest(name, names); near != "" {
		return domain + "/" + near
	}
	return ""
}
