package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/model"
)

// A Node is one machine's GPUs as their driver reports them, where Advertise
// takes them from a catalogue.
type Node struct {
	Driver  string     // version of the driver, "550.163.01"; "" when not known
	CUDA    string     // newest CUDA that the driver runs, "12.4"; "" when not known
	Machine string     // DMI product name, "" when not known
	GPUs    []Hardware // in index order
}

// Hardware is one physical GPU of a Node.
type Hardware struct {
	Index      int    // the driver's; not every index has to answer
	UUID       string // "GPU-..."
	Name       string // "NVIDIA A100-SXM4-40GB"
	Compute    string // CUDA compute capability "8.0", "" when not known
	MemoryMiB  int64  // 0 when the driver does not say, as on GB10
	PCIClass   uint32 // 0x030200; 0 when not known
	Clique     string // NVLink fabric, "<cluster UUID>.<clique id>"; "" for none
	MIGCapable bool
	MIG        bool // MIG mode is on
	Instances  []Instance
	VGPU       bool   // the node is a guest of a vGPU host
	HostDriver string // the vGPU host's driver, "460.16"; "" when not known
	HostBranch string // its branch, "r460_00"
}

// An Instance is one MIG instance. Sizes and engines are the driver's figures.
type Instance struct {
	Index           int    // the driver's, among the instances of its GPU
	UUID            string // "MIG-..."
	Profile         string // "1g.5gb", "1c.2g.10gb"
	MemoryMiB       int64
	Multiprocessors int
	GPUSlices       int
	ComputeSlices   int
	Engines         Engines
}

// Engines counts the fixed-function engines of a MIG instance.
type Engines struct {
	Copy, Decoder, Encoder, JPEG, OFA int
}

// Served is what a node's agent serves to the kubelet.
type Served struct {
	model.Advertisement
	Units    []Unit   // in order of GPU, then instance
	Warnings []string // what is not served, and what is ambiguous
}

// A Unit is a whole GPU or a MIG instance: what one allocation points to.
type Unit struct {
	GPU      int    // position in Node.GPUs
	Instance int    // position among the GPU's Instances, -1 for a whole GPU
	UUID     string // of the GPU or of the instance
	Index    string // "0", or "0:1" for an instance
	// Resources says how many devices the unit is under each resource name;
	// more than one name when entries of the config give it several.
	Resources model.Resources
	Shared    bool // an entry of the config replicates it
}

// IDs lists the device ids of the unit under a resource as NVIDIA's plugin
// writes them: the UUID, or "<UUID>::<n>" for each replica; nil when the unit
// is not of that resource.
func (u Unit) IDs(resource string) []string {
	n, ok := u.Resources[resource]
	switch {
	case !ok:
		return nil
	case !u.Shared:
		return []string{u.UUID}
	}
	out := make([]string, n)
	for i := range out {
		out[i] = u.UUID + "::" + strconv.Itoa(i)
	}
	return out
}

// Serve returns what a node's GPUs give under a device config, with the devices
// behind it: the same answer as Advertise for the hardware that is really
// there, by the same code.
//
// An error is a *SharingError when the plugin would refuse the config on these
// GPUs. NodeLabels still describes them then.
func Serve(n Node, cfg deviceconfig.Config) (Served, error) {
	cards := n.cards()
	if len(cards) == 0 {
		return Served{}, nil
	}
	ad, units, shares, err := advertise(cards, nil, cfg)
	if err != nil {
		return Served{}, err
	}
	out := Served{Advertisement: ad}
	for i, u := range units {
		out.Units = append(out.Units, Unit{
			GPU: u.gpu, Instance: u.instance, UUID: u.uuid(cards), Index: u.index(cards),
			Resources: shares.amounts[i], Shared: shares.shared[i],
		})
	}
	out.Labels, out.Warnings = NodeLabels(n, cfg)
	out.Warnings = append(out.Warnings, unserved(cards, cfg.Flags.MIGStrategy)...)
	return out, nil
}

// NodeLabels returns every label by which feature discovery describes a node
// under a device config, and what about them is ambiguous. Unlike Serve it has
// an answer for GPUs that the plugin refuses to serve: product
// "...-MIG-INVALID", count 0.
func NodeLabels(n Node, cfg deviceconfig.Config) (labelled map[string]string, warnings []string) {
	cards := n.cards()
	if len(cards) == 0 {
		return nil, nil
	}
	if units, err := deal(cards, cfg.Flags.MIGStrategy); err == nil {
		labelled = labels(cards, units, cfg)
	} else {
		labelled = labels(cards, nil, cfg)
		invalid(labelled, cards)
	}
	n.driverLabels(labelled)
	return labelled, unlike(cards)
}

// cards makes the cards of a node.
func (n Node) cards() []card {
	out := make([]card, 0, len(n.GPUs))
	for i := range n.GPUs {
		h := &n.GPUs[i]
		product := productLabel(h.Name)
		c := card{index: h.Index, live: h, mig: h.MIG, GPU: model.GPU{
			Manufacturer: "nvidia", Model: ModelOf(product), Product: product, Count: 1, Fraction: 1,
			MemoryMiB: h.MemoryMiB, Compute: h.Compute, Family: familyOf(h.Compute),
		}}
		for _, in := range h.Instances {
			c.instances = append(c.instances, in.Profile)
		}
		out = append(out, c)
	}
	return out
}

// productLabel turns the driver's name of a GPU into a label value: words
// joined by "-", without what a label does not take.
func productLabel(name string) string {
	var words []string
	for word := range strings.FieldsSeq(name) {
		word = strings.Map(func(r rune) rune {
			if r < 0x80 && (r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
				return r
			}
			return -1
		}, word)
		if word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, "-")
}

// unserved names what is on the node and handed to nobody.
func unserved(cards []card, strategy string) []string {
	if strategy != "mixed" {
		return nil
	}
	var out []string
	for _, c := range cards {
		if c.mig && len(c.instances) == 0 {
			out = append(out, fmt.Sprintf("GPU %d (%s) is in MIG mode without instances and is not served", c.index, c.title()))
		}
		for _, p := range c.instances {
			if c.mig && partial(p) {
				out = append(out, fmt.Sprintf("GPU %d (%s): instance %s has no resource name, since its compute slices differ from its GPU slices; it is not served", c.index, c.title(), p))
			}
		}
	}
	return out
}

// unlike warns of a node with several models.
func unlike(cards []card) []string {
	about, number := majority(cards)
	if number == len(cards) {
		return nil
	}
	var names []string
	for _, c := range cards {
		if !slices.Contains(names, c.title()) {
			names = append(names, c.title())
		}
	}
	return []string{fmt.Sprintf("the node has GPUs of %d models (%s); the labels describe %s, of which it has %d of %d",
		len(names), strings.Join(names, ", "), about.title(), number, len(cards))}
}
