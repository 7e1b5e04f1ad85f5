package policy

import (
	"fmt"
	"strings"

	"github.com/kerfdev/kerf/internal/guard"
)

// Names of resources and labels as expressions of RE2; they follow model.IsGPU
// and the guard's own tests, and a test holds them together.
const (
	nvidias   = `^(nvidia\.com/|aliyun\.com/gpu)`
	gpuNames  = `^(nvidia\.com/|amd\.com/gpu|aliyun\.com/gpu|habana\.ai/|aws\.amazon\.com/neuron|gpu\.intel\.com/)`
	wholeGPU  = `^(nvidia\.com/gpu($|[^mc])|nvidia\.com/mig-|amd\.com/gpu$)`
	gpuLabels = `nvidia|gpu|accelerator`
)

// quote writes a string literal of CEL.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// matches is a test of a string against an expression of RE2.
func matches(of, expression string) string { return of + ".matches(" + quote(expression) + ")" }

// oneOf is a test of a string against a list.
func oneOf(of string, values ...string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = quote(v)
	}
	return of + " in [" + strings.Join(quoted, ", ") + "]"
}

// env is the list of variables of a container c.
const env = "c.?env.orValue([])"

// sets reports whether a container sets a variable.
func sets(name string) string { return env + ".exists(e, e.name == " + quote(name) + ")" }

// last tests the last entry of a variable, which counts; test is over e.
func last(name, test string) string {
	l := env + ".filter(e, e.name == " + quote(name) + ")"
	return "[" + l + "].exists(l, size(l) > 0 && [l[size(l) - 1]].exists(e, " + test + "))"
}

const (
	value = "e.?value.orValue('')"
	// refers: the value is made of something else.
	refers = "(has(e.valueFrom) || " + value + ".contains('$('))"
	// filled: the variable is there with a value.
	filled = "(has(e.valueFrom) || " + value + " != '')"
	// harmless: no device is named.
	harmless = value + ".split(',').all(d, d.trim() in ['', 'none', 'void'])"
)

// amount tests the amounts of a map m of resources, by name k.
func amount(names, test string) string {
	return "m.exists(k, " + matches("k", names) + " && quantity(string(m[k]))." + test + ")"
}

// limits tests the limits of a container c.
func limits(names, test string) string {
	return "[c.?resources.?limits.orValue({})].exists(m, " + amount(names, test) + ")"
}

// counted tests the amounts that a container c asks for.
func counted(names string) string {
	return "[c.?resources.?limits.orValue({}), c.?resources.?requests.orValue({})].exists(m, " + amount(names, "compareTo(quantity('0')) > 0") + ")"
}

// asks reports whether a container asks for a GPU or uses a claim.
var asks = "(size(c.?resources.?claims.orValue([])) > 0 || " + counted(gpuNames) + ")"

// legacy reports whether the toolkit takes a container for one of an old image.
var legacy = "(!" + counted(nvidias) + " && !" + sets(guard.VisibleDevices) + " && " + last("CUDA_VERSION", filled) + " && !" + last("NVIDIA_REQUIRE_CUDA", filled) + ")"

// shows reports whether the variables of a container show it GPUs.
var shows = "(" + sets(guard.VisibleDevices) + " ? " + last(guard.VisibleDevices, refers+" || !"+harmless) + " : " + legacy + ")"

const privileged = "c.?securityContext.?privileged.orValue(false)"

// capable reports whether a container adds one of some capabilities.
func capable(names ...string) string {
	all := []string{"ALL", "CAP_ALL"}
	for _, n := range names {
		all = append(all, n, "CAP_"+n)
	}
	return "c.?securityContext.?capabilities.?add.orValue([]).exists(a, " + oneOf("a", all...) + ")"
}

// each tests containers of a variable; test is over c.
func each(variable, test string) string { return "variables." + variable + ".exists(c, " + test + ")" }

// nvidiaRuntime goes by the name of the runtime class.
const nvidiaRuntime = "variables.spec.?runtimeClassName.orValue('').startsWith('nvidia')"

// hostPaths tests the volumes that are paths of the node by a pattern.
func hostPaths(rule string) string {
	p := guard.PatternOf(rule)
	var tests []string
	add := func(variable, expression string) {
		if expression == "" {
			return
		}
		test := matches("p", expression)
		if p.Otherwise != "" {
			test += " && !" + matches("p", p.Otherwise)
		}
		tests = append(tests, "variables."+variable+".exists(p, "+test+")")
	}
	add("hostReadOnly", p.Any)
	add("hostReadOnly", p.ReadOnly)
	add("hostWritable", p.Any)
	add("hostWritable", p.Writable)
	return "variables.whole && (" + strings.Join(tests, " || ") + ")"
}

// cleaned writes a path without empty and . parts.
func cleaned(of string) string {
	return "'/' + " + of + ".split('/').filter(s, s != '' && s != '.').join('/')"
}

// deviceList tests a mount m for a demand for devices.
var deviceList = "((" + cleaned("m.mountPath") + ").startsWith('/var/run/nvidia-container-devices')" +
	" || (m.mountPath.split('/').exists(s, s == '..') && m.mountPath.split('/').exists(s, s.startsWith('nvidia-container-devices'))))"

// onNode tests whether a mount m is of a volume with a source of its own.
const onNode = "variables.spec.?volumes.orValue([]).exists(v, v.name == m.name && " +
	"!(has(v.emptyDir) || has(v.configMap) || has(v.secret) || has(v.downwardAPI) || has(v.projected)))"

// broken says for each rule that policies can see when it is broken, as an
// expression over the variables of the policy.
func broken() map[string]string {
	visible := guard.VisibleDevices
	able := "variables.everyone.exists(c, " + privileged + " || " + capable("SYS_ADMIN", "SYS_PTRACE") + ")"
	zero := "variables.containers.exists(c, " + limits(gpuNames, "compareTo(quantity('0')) == 0") + ")"
	out := map[string]string{
		"env-visible-devices":      each("everyone", last(visible, "!"+refers+" && !"+harmless)),
		"env-visible-devices-from": each("everyone", last(visible, refers)),
		"env-from-prefix":          each("everyone", "!"+sets(visible)+" && c.?envFrom.orValue([]).exists(f, f.?prefix.orValue('') != '' && "+quote(visible)+".startsWith(f.prefix))"),
		"env-cuda-version":         each("everyone", legacy),
		"env-mig-devices":          each("everyone", env+".exists(e, "+oneOf("e.name", "NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES")+")"),
		"env-extra-devices": each("everyone", "!"+asks+" && "+env+".exists(e, e.name == 'NVIDIA_IMEX_CHANNELS' || e.name.startsWith('DOCKER_RESOURCE_') || ("+
			oneOf("e.name", "NVIDIA_GDRCOPY", "NVIDIA_GDS", "NVIDIA_MOFED", "NVIDIA_NVSWITCH")+" && "+value+" == 'enabled'))"),
		"env-driver-capabilities": each("everyone", last("NVIDIA_DRIVER_CAPABILITIES", value+".split(',').exists(d, d in ['all', 'graphics', 'display', 'ngx'])")),
		"env-preload":             each("everyone", "("+asks+" || "+nvidiaRuntime+") && "+env+".exists(e, e.name in ['LD_PRELOAD', 'LD_AUDIT'])"),
		"env-library-path":        each("everyone", "("+asks+" || "+nvidiaRuntime+") && "+sets("LD_LIBRARY_PATH")),
		"gpu-image":               each("everyone", "!"+asks+" && !"+sets(visible)+" && "+matches("c.?image.orValue('')", guard.CUDAImages)),

		"privileged":           "variables.aims && " + each("containers", privileged),
		"privileged-anywhere":  "!variables.aims && " + each("containers", privileged),
		"sys-admin-gpu-env":    each("everyone", capable("SYS_ADMIN")+" && !"+privileged+" && "+shows),
		"sys-admin":            each("containers", capable("SYS_ADMIN")+" && !"+privileged+" && !"+sets(visible)+" && !"+legacy),
		"ephemeral-privileged": each("ephemerals", privileged+" || "+capable("SYS_ADMIN")),
		"host-pid-privileged":  "variables.whole && variables.spec.?hostPID.orValue(false) && " + able,
		"host-pid":             "variables.whole && variables.spec.?hostPID.orValue(false) && !" + able,
		"host-ipc":             "variables.whole && variables.spec.?hostIPC.orValue(false)",

		"device-list-mount": each("everyone", "c.?volumeMounts.orValue([]).exists(m, "+deviceList+" && "+onNode+")"),

		"nri-annotation":      "variables.annotations.exists(k, k == 'nvidia.cdi.k8s.io' || k.startsWith('nvidia.cdi.k8s.io/'))",
		"cdi-annotation":      "variables.annotations.exists(k, k.startsWith('cdi.k8s.io/'))",
		"reserved-annotation": "variables.whole && variables.annotations.exists(k, k.startsWith('ALIYUN_COM_GPU_MEM'))",
		"runtime-class":       "variables.whole && !variables.gpu && " + nvidiaRuntime,
		"node-name":           "variables.whole && variables.spec.?nodeName.orValue('') != '' && !variables.static && !request.?userInfo.?username.orValue('').startsWith('system:node:')",
		"cpu-pod-on-gpu-node": "variables.whole && variables.tolerates && !variables.gpu && !variables.daemon && !variables.static && !" + zero,
		"daemonset-gpu":       "variables.daemon && " + each("containers", asks),

		"gpu-zero":            "variables.whole && !variables.gpu && " + zero,
		"gpu-amount":          each("containers", limits(wholeGPU, "compareTo(quantity('1000')) >= 0")),
		"pod-level-gpu":       "variables.whole && variables.spec.?resources.?limits.orValue({}).exists(k, " + matches("k", gpuNames) + ")",
		"mixed-gpu-resources": each("containers", limits(wholeGPU, "compareTo(quantity('0')) > 0")) + " && " + each("containers", limits(`^aliyun\.com/gpu-mem$`, "compareTo(quantity('0')) > 0")),

		"quota-key": "dyn(object).?spec.?hard.orValue({}).exists(k, k.contains('/') && !k.startsWith('requests.') && !k.startsWith('count/') && !k.contains('kubernetes.io/')" +
			" && !k.contains('storageclass.storage.k8s.io/') && !k.contains('deviceclass.resource.k8s.io/') && !k.contains('volumeattributesclass.storage.k8s.io/'))",
		"limit-range-gpu": limitRange(),
		"dra-admin-access": "variables.labels[?'resource.kubernetes.io/admin-access'].orValue('') != 'true' && " +
			"[dyn(object).?spec.?devices.?requests.orValue([]), dyn(object).?spec.?spec.?devices.?requests.orValue([])]" +
			".exists(l, l.exists(r, r.?adminAccess.orValue(false) || r.?exactly.?adminAccess.orValue(false)))",
	}
	for _, rule := range []string{"host-devices", "kubelet-sockets", "pod-resources", "runtime-files", "host-root", "host-root-read-only", "mps-pipe"} {
		out[rule] = hostPaths(rule)
	}
	return out
}

// limitRange tests whether an item of a LimitRange names an extended resource
// where that has an effect.
func limitRange() string {
	named := func(field, test string) string {
		return "[l.?" + field + ".orValue({})].exists(m, m.exists(k, k.contains('/') && !k.contains('kubernetes.io/')" + test + "))"
	}
	return "dyn(object).?spec.?limits.orValue([]).exists(l, l.type == 'Pod' ? (" + named("max", "") + " || " + named("min", "") + ") : l.type == 'Container' && (" +
		named("default", "") + " || " + named("max", "") + " || " + named("min", "") + " || " + named("defaultRequest", " && quantity(string(m[k])).compareTo(quantity('0')) != 0") + "))"
}

// A Variable is one of a policy's.
type Variable struct{ Name, Expression string }

// Where the pod stands in each kind of object. dyn keeps the API server from
// holding an expression against the schema of every kind that a policy is about.
const (
	inPod      = "object"
	inTemplate = "request.kind.kind == 'CronJob' ? dyn(object).spec.jobTemplate.spec.template : dyn(object).spec.template"
)

// podVariables are those of policies about pods, or about their templates.
func podVariables(pod string) []Variable {
	whole, everyone, ephemerals := "true", "variables.containers", "[]"
	annotations := "variables.pod.?metadata.?annotations.orValue({}).filter(k, true)"
	if pod == inPod {
		whole = "request.operation == 'CREATE'"
		ephemerals = "request.?subResource.orValue('') != 'ephemeralcontainers' ? [] : object.spec.?ephemeralContainers.orValue([])" +
			".filter(c, !oldObject.spec.?ephemeralContainers.orValue([]).exists(o, o.name == c.name))"
		everyone = "variables.containers + variables.ephemerals"
		// Annotations can be added until the pod starts, which gates can put off.
		annotations = "object.metadata.?annotations.orValue({}).filter(k, request.operation == 'CREATE' || " +
			"oldObject.metadata.?annotations[?k].orValue('') != object.metadata.annotations[k])"
	}
	mounted := "(variables.listed.exists(c, c.?volumeMounts.orValue([]).exists(m, m.name == v.name)) && " +
		"variables.listed.all(c, c.?volumeMounts.orValue([]).all(m, m.name != v.name || m.?readOnly.orValue(false))))"
	paths := func(test string) string {
		return "variables.spec.?volumes.orValue([]).filter(v, has(v.hostPath) && " + test + ")" +
			".map(v, " + cleaned("v.hostPath.path") + ").map(p, p == '/var/run' || p.startsWith('/var/run/') ? p.substring(4) : p)"
	}
	terms := "variables.spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms.orValue([])"
	devices := strings.TrimPrefix(hostPaths("host-devices"), "variables.whole && ")
	return []Variable{
		{"pod", pod},
		{"spec", "variables.pod.spec"},
		{"whole", whole},
		{"listed", "variables.spec.containers + variables.spec.?initContainers.orValue([])"},
		{"containers", "variables.whole ? variables.listed : []"},
		{"ephemerals", ephemerals},
		{"everyone", everyone},
		{"annotations", annotations},
		{"static", "variables.pod.?metadata.?annotations.orValue({}).exists(k, k == 'kubernetes.io/config.mirror')"},
		{"daemon", "request.kind.kind == 'DaemonSet' || variables.pod.?metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'DaemonSet' && o.?controller.orValue(false))"},
		{"gpu", "size(variables.spec.?resourceClaims.orValue([])) > 0 || variables.listed.exists(c, " + asks + ")"},
		{"hostReadOnly", paths(mounted)},
		{"hostWritable", paths("!" + mounted)},
		{
			"tolerates", "variables.spec.?tolerations.orValue([]).exists(t, !(t.?effect.orValue('') in ['NoExecute', 'PreferNoSchedule']) && " +
				"((t.?key.orValue('') == '' && t.?operator.orValue('') == 'Exists') || " + matches("t.?key.orValue('')", gpuNames) + "))",
		},
		{
			"aims", "variables.gpu || variables.tolerates || " + nvidiaRuntime + " || variables.spec.?nodeName.orValue('') != '' || " +
				"variables.spec.?nodeSelector.orValue({}).exists(k, " + matches("k", gpuLabels) + ") || " +
				terms + ".exists(t, t.?matchExpressions.orValue([]).exists(e, !(e.operator in ['NotIn', 'DoesNotExist']) && " + matches("e.key", gpuLabels) + ")) || " + devices,
		},
	}
}

// ruling are the variables by which labels and exemptions choose what is done.
func ruling(o Options) []Variable {
	modes := "['deny', 'warn', 'audit', 'off']"
	out := []Variable{
		{"labels", "namespaceObject.?metadata.?labels.orValue({})"},
		{"mode", "[variables.labels[?" + quote(guard.LabelMode) + "].orValue('')].filter(m, m in " + modes + ").join('')"},
	}
	var ids []string
	for _, e := range o.Exemptions {
		if e.ServiceAccount != "" && len(e.Rules) == 0 {
			ids = append(ids, e.Namespace+"/"+e.ServiceAccount)
		}
	}
	excused := "false"
	if len(ids) > 0 {
		excused = oneOf("variables.identity", ids...)
	}
	return append(out, Variable{"excused", excused})
}

// identity is the variable that exemptions go by.
var identity = Variable{"identity", "request.namespace + '/' + variables.spec.?serviceAccountName.orValue('default')"}

// inForce says when a rule counts at a level: by its own severity, unless labels
// of the namespace or an exemption say otherwise.
func inForce(rule guard.Rule, at Level, o Options) string {
	label := quote(guard.LabelPrefix + rule.Name)
	mode := "[variables.labels[?" + label + "].orValue('')].all(m, m in ['deny', 'warn', 'audit', 'off'] ? " + at.when(rule, "m") + " : " + at.when(rule, "variables.mode") + ")"
	out := "!variables.excused && " + mode
	var ids, namespaces []string
	for _, e := range o.Exemptions {
		for _, r := range e.Rules {
			switch {
			case r != rule.Name:
			case e.ServiceAccount == "":
				namespaces = append(namespaces, e.Namespace)
			default:
				ids = append(ids, e.Namespace+"/"+e.ServiceAccount)
			}
		}
	}
	if len(ids) > 0 {
		out += " && !(" + oneOf("variables.identity", ids...) + ")"
	}
	if len(namespaces) > 0 {
		out += " && !(" + oneOf("request.namespace", namespaces...) + ")"
	}
	return out
}

// message is what a person reads when a rule is broken.
func message(rule guard.Rule) string {
	text := fmt.Sprintf("%s: %s", rule.Name, rule.Title)
	if rule.Fix != "" {
		text += "; " + rule.Fix
	}
	return strings.ReplaceAll(text, "\n", " ") + "; kerf guard rules " + rule.Name
}
