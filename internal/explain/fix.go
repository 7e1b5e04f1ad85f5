package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// remedies says for each kind how the change reads.
var remedies = map[model.RemedyKind]func(model.Verdict, model.Remedy) string{
	model.RemedyTolerate:   tolerate,
	model.RemedyDropLabel:  dropLabel,
	model.RemedySetLabel:   setLabel,
	model.RemedyAddValue:   addValue,
	model.RemedyAsk:        ask,
	model.RemedyRename:     rename,
	model.RemedyRaiseLimit: raiseLimit,
	model.RemedyAllowMore:  allowMore,
	model.RemedyUsePool:    usePool,
	model.RemedyNameFamily: nameFamily,
	model.RemedyLabelPool:  labelPool,
	model.RemedyFix:        asSaid,
}

// tolerate writes the toleration to add. The effect is that of the remedy's
// values, else of the verdict's taint.
func tolerate(v model.Verdict, r model.Remedy) string {
	effect := ""
	for _, value := range r.Values {
		if slices.Contains(effects, value) {
			effect = value
		}
	}
	if effect == "" && r.Key == v.Key {
		_, effect = parts(v)
	}
	return fmt.Sprintf("tolerations: [{key: %s, operator: Exists%s}]", r.Key, after(", effect: ", effect))
}

func dropLabel(_ model.Verdict, r model.Remedy) string {
	return "remove " + r.Key + " from the pod's nodeSelector or affinity"
}

func setLabel(_ model.Verdict, r model.Remedy) string {
	if len(r.Values) > 1 {
		return "select " + r.Key + " In [" + few(r.Values) + "] in the pod"
	}
	return "select " + r.Key + after(": ", few(r.Values)) + " in the pod"
}

func addValue(_ model.Verdict, r model.Remedy) string {
	return "add " + few(r.Values) + " to " + r.Key + " in the pool's requirements"
}

func ask(_ model.Verdict, r model.Remedy) string {
	return "ask for " + r.Key + ": " + quantity(r.Key, r.Amount)
}

func rename(_ model.Verdict, r model.Remedy) string {
	if len(r.Values) == 0 {
		return ""
	}
	return "ask for " + r.Values[0] + " instead of " + r.Key
}

func raiseLimit(_ model.Verdict, r model.Remedy) string {
	return "raise limits." + r.Key + " to " + quantity(r.Key, r.Amount)
}

func allowMore(v model.Verdict, _ model.Remedy) string {
	return "set failRequestsGreaterThanOne: false" + after(" in config ", v.Config)
}

func usePool(_ model.Verdict, r model.Remedy) string {
	return "select pool " + few(r.Values) + " (" + model.LabelNodePool + ": " + few(r.Values) + ")"
}

func nameFamily(_ model.Verdict, r model.Remedy) string {
	return "name the family in the pool: karpenter.k8s.aws/instance-family In [" + few(r.Values) + "]"
}

func labelPool(_ model.Verdict, r model.Remedy) string {
	return "add the label " + r.Key + after(": ", few(r.Values)) + " to the pool's template"
}

func asSaid(_ model.Verdict, r model.Remedy) string { return strings.Join(r.Values, ", ") }

// labels are those that a pod may plainly mean when it selects on one that
// nothing sets.
var labels = []string{
	model.LabelInstanceType, model.LabelZone, model.LabelRegion, model.LabelArch, model.LabelOS, model.LabelHostname,
	model.LabelCapacityType, model.LabelNodePool, model.LabelDeviceConfig, model.LabelMIGConfig,
	"nvidia.com/gpu.present", "nvidia.com/gpu.product", "nvidia.com/gpu.family", "nvidia.com/gpu.memory", "nvidia.com/gpu.count",
	aws + "category", aws + "family", aws + "generation", aws + "size", aws + "cpu", aws + "memory", aws + "local-nvme", aws + "hypervisor",
	aws + "gpu-name", aws + "gpu-manufacturer", aws + "gpu-count", aws + "gpu-memory",
}

// aws begins the labels of Karpenter's AWS provider on instance types.
const aws = "karpenter.k8s.aws/instance-"

// misspelt asks whether a near word was meant, "" when none is near.
func misspelt(v model.Verdict) string {
	meant := ""
	switch v.Code {
	case model.CodeNoResource:
		meant = nearest(v.Key, v.Offered)
	case model.CodeRequirement, model.CodeNoType, model.CodeNoOffering:
		if len(v.Offered) == 0 {
			meant = nearest(v.Key, labels)
		} else if strings.HasPrefix(condition(v.Wanted), "In ") {
			meant = twin(v.Wanted, v.Offered)
		}
	}
	return after("did you mean ", meant, "?")
}

// nearest returns the key that another is most likely a misspelling of. Names
// that differ in digits only, as MIG profiles do, are different things.
func nearest(word string, known []string) string {
	return manifest.Nearest(word, slices.DeleteFunc(slices.Clone(known), func(k string) bool { return letters(k) == letters(word) }))
}

// letters drops the digits from a word.
func letters(word string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, word)
}

// twin returns the offered value that is a wanted one in another case or with
// two letters swapped. Values that are one letter apart are mostly two things:
// amd64 and arm64, m5.large and c5.large, p4d and p4de.
func twin(wanted, offered []string) string {
	for _, w := range wanted {
		for _, o := range offered {
			if w != o && (strings.EqualFold(w, o) || swapped(strings.ToLower(w), strings.ToLower(o))) {
				return o
			}
		}
	}
	return ""
}

// swapped reports whether two words differ by two neighbouring letters that
// have changed places.
func swapped(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 0; i+1 < len(a); i++ {
		if a[i] != b[i] {
			return letters(a[i:i+2]) == a[i:i+2] && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
		}
	}
	return false
}
