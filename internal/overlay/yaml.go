package overlay

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// head stands on top of the file.
const head = `# With these NodeOverlays Karpenter counts what GPU nodes will advertise.
#
# Switch the feature gate on, which is off by default in Karpenter 1.15:
#   helm upgrade karpenter oci://public.ecr.aws/karpenter/karpenter --reuse-values --set settings.featureGates.nodeOverlay=true
#   or FEATURE_GATES=NodeOverlay=true in the controller's environment
#
# They hold one number for each instance type of a pool:
#   - write them again when the device-plugin config, a pool or the types change
#   - a node that gets another nvidia.com/device-plugin.config or nvidia.com/mig.config label later is counted wrong
#   - EKS Auto Mode has no NodeOverlays
`

// YAML writes overlays for kubectl apply, with what they cannot say as comments.
func YAML(overlays []Overlay) []byte {
	var b bytes.Buffer
	if len(overlays) == 0 {
		b.WriteString("# No NodeOverlay is needed: every pool's nodes advertise what Karpenter counts.\n")
		return b.Bytes()
	}
	b.WriteString(head)
	for i := range overlays {
		overlays[i].write(&b)
	}
	return b.Bytes()
}

func (o Overlay) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "---\n# pool %s: %s\n", o.Pool, o.origin())
	if len(o.OneEach) > 0 {
		fmt.Fprintf(b, "# a container gets one %s at most (failRequestsGreaterThanOne); Karpenter does not know, and launches a node on which a pod that asks for more fails\n",
			strings.Join(o.OneEach, " or "))
	}
	fmt.Fprintf(b, "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata:\n  name: %s\nspec:\n  weight: %d\n  requirements:\n", o.Name, o.Weight)
	for _, r := range o.Requirements() {
		fmt.Fprintf(b, "    - key: %s\n      operator: %s\n      values:\n", r.Key, r.Operator)
		for _, v := range r.Values {
			fmt.Fprintf(b, "        - %s\n", quoted(v))
		}
	}
	b.WriteString("  capacity:\n")
	for _, name := range o.Capacity.Names() {
		fmt.Fprintf(b, "    %s: %d\n", name, o.Capacity[name])
	}
}

// origin says where the numbers come from.
func (o Overlay) origin() string {
	switch {
	case o.Config == "" && o.Sharing == model.Exclusive:
		return "slices of a GPU, which EC2 counts as none"
	case o.Config == "":
		return string(o.Sharing)
	case o.Sharing == model.Exclusive:
		return "device config " + o.Config
	}
	return fmt.Sprintf("%s by device config %s", o.Sharing, o.Config)
}

// quoted guards the names that YAML would read as something else than text.
func quoted(s string) string {
	if strings.Trim(s, "0123456789.eE+-_") == "" || s == "null" || s == "true" || s == "false" || s == "yes" || s == "no" || s == "on" || s == "off" || s == "y" || s == "n" {
		return `"` + s + `"`
	}
	return s
}
