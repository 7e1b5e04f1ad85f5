package workload

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A fault is one thing that the API server refuses.
type fault struct {
	Field string // as the server names it
	Body  string // the server's words after the field
	Fix   string // the next step, "" when the words say it
}

func faults(errs field.ErrorList) []fault {
	out := make([]fault, 0, len(errs))
	for _, e := range errs {
		out = append(out, fault{Field: e.Field, Body: e.ErrorBody(), Fix: fixFor(e)})
	}
	return out
}

// fixFor names the next step for the faults that people meet most.
func fixFor(e *field.Error) string {
	name, _ := strings.CutSuffix(e.Field[strings.LastIndexByte(e.Field, '[')+1:], "]")
	switch {
	case strings.HasPrefix(e.Detail, "Limit must be set"):
		return "write the same amount under limits"
	case strings.HasPrefix(e.Detail, "must be equal to"):
		return "give requests and limits the same amount, or leave requests out"
	case e.Detail == "must be an integer":
		return "ask for whole units; for a part of a GPU use a shared resource, such as a time slice or a MIG slice"
	case strings.HasPrefix(e.Detail, "must be a standard resource") && (name == "gpu" || name == "nvidia"):
		return "write nvidia.com/gpu"
	case strings.HasPrefix(e.Detail, "must be a standard resource"):
		return "write the resource with its vendor's domain, as in nvidia.com/gpu"
	case e.Detail == "doesn't follow extended resource name standard" && strings.HasPrefix(name, "requests."):
		return "write " + strings.TrimPrefix(name, "requests.") + ": the prefix is for quotas"
	case e.Type == field.ErrorTypeNotSupported && strings.Contains("."+e.Field, ".spec.resources."):
		return "ask for it in a container"
	case strings.HasPrefix(e.Detail, "effect must be 'NoExecute'"):
		return "remove tolerationSeconds"
	}
	return ""
}

// validatePod says what the API server of Kubernetes 1.37 refuses in a pod's
// metadata and in those parts of its spec that are read here.
func validatePod(meta *metav1.ObjectMeta, spec *corev1.PodSpec) field.ErrorList {
	at := field.NewPath("metadata")
	var errs field.ErrorList
	switch {
	case meta.Name == "" && meta.GenerateName == "":
		errs = append(errs, field.Required(at.Child("name"), "name or generateName is required"))
	case meta.Name != "":
		for _, msg := range apivalidation.NameIsDNSSubdomain(meta.Name, false) {
			errs = append(errs, field.Invalid(at.Child("name"), meta.Name, msg))
		}
	}
	errs = append(errs, validateLabels(meta.Labels, at.Child("labels"))...)
	path := field.NewPath("spec")
	errs = append(errs, validateSpec(spec, path, true)...)
	if len(spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if spec.NodeName != "" && len(spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(path.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return errs
}

// validateTemplate is the same for the template of a workload.
func validateTemplate(t *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	errs := validateLabels(t.Labels, path.Child("metadata", "labels"))
	errs = append(errs, validateSpec(&t.Spec, path.Child("spec"), false)...)
	if len(t.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template"))
	}
	return errs
}

// validateSpec goes through a pod spec in the order in which the API server
// does. Of a pod, host ports have been defaulted; of a template they have not.
func validateSpec(spec *corev1.PodSpec, path *field.Path, isPod bool) field.ErrorList {
	errs := validateVolumes(spec.Volumes, path.Child("volumes"))
	errs = append(errs, validateClaims(spec.ResourceClaims, path.Child("resourceClaims"))...)
	errs = append(errs, validateContainers(spec, path)...)
	errs = append(errs, validateInitContainers(spec, path.Child("initContainers"))...)
	errs = append(errs, validateEphemeral(spec, path.Child("ephemeralContainers"))...)
	errs = append(errs, validatePodLevel(spec, path.Child("resources"))...)
	errs = append(errs, validateHostNetwork(spec, path.Child("containers"), isPod)...)
	errs = append(errs, validateLabels(spec.NodeSelector, path.Child("nodeSelector"))...)
	errs = append(errs, validateAffinity(spec.Affinity, path.Child("affinity"))...)
	errs = append(errs, validateGates(spec.SchedulingGates, path.Child("schedulingGates"))...)
	errs = append(errs, validateSpread(spec.TopologySpreadConstraints, path.Child("topologySpreadConstraints"))...)
	errs = append(errs, validateTolerations(spec.Tolerations, path.Child("tolerations"))...)
	if name := spec.PriorityClassName; name != "" {
		errs = append(errs, validateName(name, path.Child("priorityClassName"))...)
	}
	if name := spec.RuntimeClassName; name != nil {
		errs = append(errs, validateName(*name, path.Child("runtimeClassName"))...)
	}
	overhead := &corev1.ResourceRequirements{Limits: spec.Overhead}
	return append(errs, validateResources(overhead, containerName, nil, path.Child("overhead"))...)
}

func validateName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range apivalidation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

// validateLabels is metav1's in the order of the keys.
func validateLabels(labels map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, k := range sortedKeys(labels) {
		errs = append(errs, metavalidation.ValidateLabels(map[string]string{k: labels[k]}, path)...)
	}
	return errs
}

// validateDNSLabel is the check of container, volume and claim names.
func validateDNSLabel(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

func validateVolumes(volumes []corev1.Volume, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{} // names of volumes without a fault
	for i, v := range volumes {
		var own field.ErrorList
		at := path.Index(i)
		if c := v.PersistentVolumeClaim; c != nil && c.ClaimName == "" {
			own = append(own, field.Required(at.Child("persistentVolumeClaim", "claimName"), ""))
		}
		if v.Name == "" {
			own = append(own, field.Required(at.Child("name"), ""))
		} else {
			own = append(own, validateDNSLabel(v.Name, at.Child("name"))...)
		}
		if seen[v.Name] {
			own = append(own, field.Duplicate(at.Child("name"), v.Name))
		}
		seen[v.Name] = seen[v.Name] || len(own) == 0
		errs = append(errs, own...)
	}
	return errs
}

func validateClaims(claims []corev1.PodResourceClaim, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, c := range claims {
		switch at := path.Index(i).Child("name"); {
		case c.Name == "":
			errs = append(errs, field.Required(at, ""))
		case seen[c.Name]:
			errs = append(errs, field.Duplicate(at, c.Name))
		default:
			errs = append(errs, validateDNSLabel(c.Name, at)...)
		}
		seen[c.Name] = true
	}
	return errs
}

func validateGates(gates []corev1.PodSchedulingGate, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, g := range gates {
		for _, msg := range validation.IsQualifiedName(g.Name) {
			errs = append(errs, field.Invalid(path.Index(i), g.Name, msg))
		}
		if slices.Contains(gates[:i], g) {
			errs = append(errs, field.Duplicate(path.Index(i), g.Name))
		}
	}
	return errs
}

// validateOwner checks what the API server checks of a workload beside its template.
func validateOwner(w *work, t *corev1.PodTemplateSpec) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath(w.at)
	if w.object.doc.Name == "" && w.object.meta.GenerateName == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "name"), "name or generateName is required"))
	}
	if w.count < 0 {
		number := "replicas"
		if w.finishes {
			number = "parallelism"
		}
		errs = append(errs, field.Invalid(field.NewPath(strings.TrimSuffix(w.at, "template")+number), w.count, apivalidation.IsNegativeErrorMsg))
	}
	errs = append(errs, validateSelector(w, t)...)
	errs = append(errs, validateTemplate(t, path)...)
	policy, at := t.Spec.RestartPolicy, path.Child("spec", "restartPolicy")
	switch {
	case w.finishes && (policy == "" || policy == corev1.RestartPolicyAlways):
		errs = append(errs, field.Required(at, fmt.Sprintf("valid values: %q, %q", corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)))
	case w.finishes && policy != corev1.RestartPolicyOnFailure && policy != corev1.RestartPolicyNever:
		errs = append(errs, field.NotSupported(at, policy, []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}))
	case !w.finishes && policy != "" && policy != corev1.RestartPolicyAlways:
		errs = append(errs, field.NotSupported(at, policy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	return errs
}

// validateSelector checks that a workload's selector picks its own pods.
func validateSelector(w *work, t *corev1.PodTemplateSpec) field.ErrorList {
	at, labels := field.NewPath("spec", "selector"), field.NewPath(w.at).Child("metadata", "labels")
	mismatch := field.Invalid(labels, t.Labels, "`selector` does not match template `labels`")
	switch {
	case w.selector == nil && !w.selects:
		return nil
	case w.selector == nil && w.object.kind.name == "DaemonSet": // which the server takes to select nothing
		return field.ErrorList{mismatch}
	case w.selector == nil:
		return field.ErrorList{field.Required(at, "")}
	}
	errs := metavalidation.ValidateLabelSelector(w.selector, metavalidation.LabelSelectorValidationOptions{}, at)
	if len(w.selector.MatchLabels)+len(w.selector.MatchExpressions) == 0 {
		return append(errs, field.Invalid(at, w.selector, "empty selector is invalid for "+strings.ToLower(w.object.kind.name)))
	}
	s, err := metav1.LabelSelectorAsSelector(w.selector)
	if err == nil && !s.Matches(labelSet(t.Labels)) {
		errs = append(errs, mismatch)
	}
	return errs
}
