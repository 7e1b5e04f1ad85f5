package guard

import (
	"slices"
	"strings"
)

// Names of variables that the NVIDIA container toolkit reads (v1.20.2,
// internal/config/image).
const (
	VisibleDevices = "NVIDIA_VISIBLE_DEVICES"
	cudaVersion    = "CUDA_VERSION"
	requireCUDA    = "NVIDIA_REQUIRE_CUDA"
)

// Harmless reports whether a value of NVIDIA_VISIBLE_DEVICES names no device:
// it is empty, none, void, or a list of those. The toolkit 1.20 also shows no
// device for a list that has void beside devices, or none first; the guard
// refuses such lists, as other runtimes read them otherwise and nobody writes
// them by accident.
func Harmless(value string) bool {
	for part := range strings.SplitSeq(value, ",") {
		switch strings.TrimSpace(part) {
		case "", "none", "void":
		default:
			return false
		}
	}
	return true
}

// A setting is the value that a variable has when its container starts.
type setting struct {
	text  string
	known bool   // false: it depends on what is not in the input
	index int    // of the entry of env that sets it, -1 when envFrom does
	from  string // the object of envFrom that sets it
}

// Bounds, in bytes, on what variables may grow to by referring to each other:
// forty that each name the last one twice are a terabyte. The longest list of
// devices, 56 slices of MIG by their UUIDs, is 2.3 KiB.
const (
	longestValue     = 4 << 10
	roomOfAContainer = 256 << 10
)

// environment works out the variables of a container as the kubelet 1.37 does
// (makeEnvironmentVariables): envFrom in its order, then env in its order, each
// able to refer to what came before by $(NAME), the last of a name counting.
// What the device plugin sets comes before all of these. ok is false where a
// ConfigMap or Secret of envFrom is not in the facts.
func environment(c *Container, f *Facts) (vars map[string]setting, ok bool) {
	vars, ok = make(map[string]setting, len(c.Env)), true
	room := roomOfAContainer
	for _, from := range c.EnvFrom {
		data, known := f.data(from)
		ok = ok && known
		for key, value := range data {
			vars[from.Prefix+key] = setting{text: value, known: true, index: -1, from: from.Kind + " " + from.Name}
		}
	}
	for i, e := range c.Env {
		s := setting{index: i, text: e.Value, known: e.From == ""}
		if s.known {
			s.text, s.known = expand(e.Value, vars, ok, min(room, longestValue))
			if s.text != e.Value {
				room -= len(s.text)
			}
		}
		vars[e.Name] = s
	}
	return vars, ok
}

// expand replaces $(NAME) by what is set already, as k8s.io/kubernetes
// third_party/forked/golang/expansion does: $$ is a dollar sign, and the name
// of nothing stays as written. known is false where a name may stand for what
// the input does not have, an unknown source or the address of a Service, and
// where the value would be longer than room.
func expand(text string, vars map[string]setting, complete bool, room int) (value string, known bool) {
	if !strings.Contains(text, "$") {
		return text, true
	}
	var b strings.Builder
	known = true
	end := strings.IndexByte(text, ')') // the next one, -1 for none
	for i := 0; i < len(text); i++ {
		if b.Len() > room {
			return text, false
		}
		if text[i] != '$' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		if end >= 0 && end < i {
			end = after(text, i, ')')
		}
		switch {
		case text[i+1] == '$':
			b.WriteByte('$')
			i++
		case text[i+1] != '(' || end < 0:
			b.WriteByte('$')
		default:
			name := text[i+2 : end]
			s, set := vars[name]
			switch {
			case set && b.Len()+len(s.text) > room:
				return text, false
			case set:
				b.WriteString(s.text)
				known = known && s.known
			default:
				b.WriteString(text[i : end+1])
				known = known && complete && !ofService(name)
			}
			i = end
		}
	}
	return b.String(), known
}

// after is the offset of the next c in text from i on, -1 for none.
func after(text string, i int, c byte) int {
	n := strings.IndexByte(text[i:], c)
	if n < 0 {
		return -1
	}
	return i + n
}

// ofService reports whether the kubelet could set a variable for a Service.
func ofService(name string) bool {
	return slices.ContainsFunc([]string{"_SERVICE_HOST", "_SERVICE_PORT", "_PORT"}, func(s string) bool { return strings.Contains(name, s) })
}

// watched reports whether any rule looks at a container's variables.
func watched(c *Container) bool {
	return len(c.EnvFrom) > 0 || slices.ContainsFunc(c.Env, func(e Env) bool {
		return e.Name == cudaVersion || strings.HasPrefix(e.Name, "NVIDIA_") || strings.HasPrefix(e.Name, "LD_") || strings.HasPrefix(e.Name, "DOCKER_RESOURCE_")
	})
}
