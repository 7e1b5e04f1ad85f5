package guard

import (
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// A Pod is what the rules look at: one pod, or the template of pods, as it was
// written. The zero value of a field is "not given".
type Pod struct {
	Namespace      string
	Name           string
	ServiceAccount string // "default" when the spec names none
	Kind           string // of the object that it is written in: "Pod", "Deployment"
	DaemonSet      bool   // a DaemonSet makes it
	Static         bool   // the kubelet's picture of a static pod
	Live           bool   // a cluster has stored it, so that others have written to it since

	Annotations  []Annotation
	RuntimeClass string
	NodeName     string
	HostPID      bool
	HostIPC      bool
	Tolerations  []model.Toleration
	PlacedBy     []string // label keys that it selects nodes by: nodeSelector and required affinity
	Volumes      []Volume
	Containers   []Container // all of them: containers, then init, then ephemeral ones
	Resources    []Amount    // at pod level
	Claims       bool        // it names resource claims

	// Place is that of the pod spec; Field is its path: "spec", "spec.template.spec".
	Place model.Place
	tree  func() *manifest.Node // the whole object, for the lines of fields; nil when there is none
}

// An Annotation is one annotation of a pod.
type Annotation struct{ Key, Value string }

// A Container is one container of a pod.
type Container struct {
	Name       string
	List       string // the field that holds it: "containers", "initContainers", "ephemeralContainers"
	Index      int    // in List
	Image      string
	Env        []Env
	EnvFrom    []EnvFrom
	Privileged bool
	Caps       []string // added capabilities, as written
	Limits     []Amount
	Requests   []Amount
	Claims     bool // it uses a resource claim
	Mounts     []Mount
}

// An Env is one entry of a container's env.
type Env struct {
	Name  string
	Value string
	From  string // "" for a literal, else the kind of its source: "configMapKeyRef", "fieldRef"
	Line  int    // 0 = look it up
}

// An EnvFrom takes all keys of a ConfigMap or Secret, with Prefix before each.
type EnvFrom struct {
	Prefix string
	Kind   string // "ConfigMap" or "Secret"
	Name   string
}

// An Amount is a quantity of a resource as written, and as a number.
type Amount struct {
	Name  string
	Text  string
	Value float64 // in the resource's unit; NaN when Text is no quantity
}

// A Volume is one volume of a pod.
type Volume struct {
	Name     string
	Kind     string // the field that says what it is: "hostPath", "emptyDir"
	HostPath string // of kind hostPath, as written
}

// A Mount is one volumeMount of a container.
type Mount struct {
	Volume   string
	Path     string // as written
	ReadOnly bool
}

// WithoutLines says that nobody asks for the lines of findings: all have that of
// the pod spec. Finding lines takes a while in objects of thousands of fields.
func (p *Pod) WithoutLines() { p.tree = nil }

// path is the field path of a container in the object.
func (p *Pod) path(c *Container) string {
	return p.Place.Field + "." + c.List + "[" + strconv.Itoa(c.Index) + "]"
}

// lineOf is the line of a field's key where it has one, else of its value.
func lineOf(root *manifest.Node, field string) int {
	n, ok := root.Find(field)
	end := max(strings.LastIndexByte(field, '.'), strings.LastIndexByte(field, '['))
	if parent, found := root.Find(field[:max(0, end)]); ok && found {
		for _, f := range parent.Fields {
			if f.Value == n {
				return f.Line
			}
		}
	}
	return n.LineOf()
}

// identity is what exemptions go by.
func (p *Pod) identity() string { return p.Namespace + "/" + p.ServiceAccount }

// asksGPU reports whether any container asks for GPUs, or the pod for a claim.
func (p *Pod) asksGPU() bool {
	if p.Claims {
		return true
	}
	for i := range p.Containers {
		if p.Containers[i].asksGPU() {
			return true
		}
	}
	return false
}

// asksGPU reports whether the container asks for a GPU, a part of one, or a claim.
func (c *Container) asksGPU() bool { return c.Claims || c.asks(model.IsGPU) }

// asks reports whether the container asks for more than 0 of a resource.
func (c *Container) asks(named func(string) bool) bool {
	for _, list := range [][]Amount{c.Limits, c.Requests} {
		for _, a := range list {
			if a.Value > 0 && named(a.Name) {
				return true
			}
		}
	}
	return false
}

// nvidias reports whether a resource stands for NVIDIA GPUs or parts of them.
func nvidias(resource string) bool {
	return strings.HasPrefix(resource, "nvidia.com/") || strings.HasPrefix(resource, "aliyun.com/gpu")
}

// ephemeral reports whether the container was added to a running pod. Such a
// container can have no resources.
func (c *Container) ephemeral() bool { return c.List == "ephemeralContainers" }

// sysAdmin reports whether the container asks for CAP_SYS_ADMIN, by its name or
// with all the others.
func (c *Container) sysAdmin() bool { return c.hasCap("SYS_ADMIN") }

func (c *Container) hasCap(name string) bool {
	for _, have := range c.Caps {
		if have == "ALL" || have == "CAP_ALL" || strings.TrimPrefix(have, "CAP_") == name {
			return true
		}
	}
	return false
}

// env returns the last entry of a name, as that one counts.
func (c *Container) env(name string) (Env, int, bool) {
	for i := len(c.Env) - 1; i >= 0; i-- {
		if c.Env[i].Name == name {
			return c.Env[i], i, true
		}
	}
	return Env{}, 0, false
}
