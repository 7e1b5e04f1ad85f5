package workload

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// isNative reports whether a resource is Kubernetes' own: without a domain, or
// in one that holds "kubernetes.io/".
func isNative(name string) bool {
	return !strings.Contains(name, "/") || strings.Contains(name, corev1.ResourceDefaultNamespacePrefix)
}

// isExtended reports whether a resource is one that device plugins advertise.
func isExtended(name string) bool {
	return !isNative(name) && !strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) == 0
}

// isOvercommitted reports whether requests may differ from limits.
func isOvercommitted(name string) bool { return isNative(name) && !isHugePage(name) }

// standard holds the names without a domain that Kubernetes knows, and whether
// a container may ask for them.
var standard = map[string]bool{
	"cpu": true, "memory": true, "ephemeral-storage": true,
	"requests.cpu": false, "requests.memory": false, "requests.ephemeral-storage": false,
	"limits.cpu": false, "limits.memory": false, "limits.ephemeral-storage": false,
	"pods": false, "resourcequotas": false, "services": false, "replicationcontrollers": false,
	"secrets": false, "configmaps": false, "persistentvolumeclaims": false, "storage": false,
	"requests.storage": false, "services.nodeports": false, "services.loadbalancers": false,
}

// counted in whole units though they have no domain.
var wholeNames = []string{
	"pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
	"persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
}

// anyName checks a resource's name wherever it stands.
func anyName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	_, known := standard[name]
	known = known || isHugePage(strings.TrimPrefix(name, corev1.DefaultResourceRequestsPrefix))
	if len(errs) == 0 && !strings.Contains(name, "/") && !known {
		errs = append(errs, field.Invalid(path, name, "must be a standard resource type or fully qualified"))
	}
	return errs
}

// containerName checks the name of a resource that a container asks for.
func containerName(name string, path *field.Path) field.ErrorList {
	errs := anyName(name, path)
	switch {
	case !strings.Contains(name, "/"):
		if !standard[name] && !isHugePage(name) {
			errs = append(errs, field.Invalid(path, name, "must be a standard resource for containers"))
		}
	case !isNative(name) && !isExtended(name):
		errs = append(errs, field.Invalid(path, name, "doesn't follow extended resource name standard"))
	}
	return errs
}

// podLevelName checks the name of a resource asked for at pod level.
func podLevelName(name string, path *field.Path) field.ErrorList {
	errs := anyName(name, path)
	if len(errs) == 0 && !podLevel(corev1.ResourceName(name)) {
		errs = append(errs, field.NotSupported(path, corev1.ResourceName(name), []string{"cpu", corev1.ResourceHugePagesPrefix, "memory"}))
	}
	return errs
}

// validateResources checks the requests and limits of a container or a pod.
func validateResources(rr *corev1.ResourceRequirements, checkName func(string, *field.Path) field.ErrorList, claims []corev1.PodResourceClaim, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	limits, requests := path.Child("limits"), path.Child("requests")
	for _, name := range sortedNames(rr.Limits) {
		errs = append(errs, validateAmount(name, rr.Limits[name], checkName, limits.Key(string(name)))...)
	}
	for _, name := range sortedNames(rr.Requests) {
		errs = append(errs, validateAmount(name, rr.Requests[name], checkName, requests.Key(string(name)))...)
		errs = append(errs, validatePair(name, rr, path)...)
	}
	names := sortedNames(rr.Limits, rr.Requests)
	isBase := func(n corev1.ResourceName) bool { return n == corev1.ResourceCPU || n == corev1.ResourceMemory }
	if slices.ContainsFunc(names, func(n corev1.ResourceName) bool { return isHugePage(string(n)) }) && !slices.ContainsFunc(names, isBase) {
		errs = append(errs, field.Forbidden(path, "HugePages require cpu or memory"))
	}
	return append(errs, validateClaimUse(rr.Claims, claims, path.Child("claims"))...)
}

func validateAmount(name corev1.ResourceName, q resource.Quantity, checkName func(string, *field.Path) field.ErrorList, path *field.Path) field.ErrorList {
	errs := checkName(string(name), path)
	if q.Sign() < 0 {
		errs = append(errs, field.Invalid(path, q.String(), apivalidation.IsNegativeErrorMsg))
	}
	whole := isExtended(string(name)) || slices.Contains(wholeNames, string(name))
	if whole && q.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(path, q, "must be an integer"))
	}
	if isHugePage(string(name)) && !wholePages(name, q) {
		errs = append(errs, field.Invalid(path, q.String(), fmt.Sprintf("%s is not positive integer multiple of %s", q.String(), name)))
	}
	return errs
}

func wholePages(name corev1.ResourceName, q resource.Quantity) bool {
	page, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	return err == nil && page.Sign() > 0 && page.MilliValue()%1000 == 0 && page.Value() > 0 && q.Value()%page.Value() == 0
}

// validatePair checks a request against the limit of the same resource.
func validatePair(name corev1.ResourceName, rr *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	request := rr.Requests[name]
	limit, limited := rr.Limits[name]
	over := isOvercommitted(string(name))
	switch {
	case !limited && !over:
		return field.ErrorList{field.Required(path.Child("limits"), "Limit must be set for non overcommitable resources")}
	case limited && !over && request.Cmp(limit) != 0:
		return field.ErrorList{field.Invalid(path.Child("requests"), request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String()))}
	case limited && request.Cmp(limit) > 0:
		return field.ErrorList{field.Invalid(path.Child("requests"), request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String()))}
	}
	return nil
}

// validateClaimUse checks that a container uses only claims that its pod names.
func validateClaimUse(used []corev1.ResourceClaim, claims []corev1.PodResourceClaim, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var names []string
	for _, c := range claims {
		if c.Name != "" {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	for i, c := range used {
		if slices.Contains(names, c.Name) {
			continue
		}
		e := field.NotFound(path.Index(i), c.Name)
		e.Detail = "must be one of the names in pod.spec.resourceClaims"
		if len(names) == 0 {
			e.Detail += " which is empty"
		} else {
			e.Detail += ": " + strings.Join(slices.Compact(names), ", ")
		}
		errs = append(errs, e)
	}
	return errs
}

// validatePodLevel checks resources given for the pod as a whole.
func validatePodLevel(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	if spec.Resources == nil {
		return nil
	}
	var errs field.ErrorList
	if spec.Resources.Claims != nil {
		errs = append(errs, field.Forbidden(path.Child("claims"), "claims may not be set for Resources at pod-level"))
	}
	errs = append(errs, validateResources(spec.Resources, podLevelName, spec.ResourceClaims, path)...)
	sum := requestsOf(spec)
	for _, name := range sortedNames(sum) {
		whole, given := spec.Resources.Requests[name]
		if parts := sum[name]; given && parts.Cmp(whole) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests").Key(string(name)), whole.String(),
				"must be greater than or equal to aggregate container requests of "+parts.String()))
		}
	}
	all := limitsOf(spec)
	for _, name := range sortedNames(all) {
		whole, given := spec.Resources.Limits[name]
		if parts := all[name]; isHugePage(string(name)) && given && parts.Cmp(whole) > 0 {
			errs = append(errs, field.Invalid(path.Child("limits").Key(string(name)), whole.String(),
				"must be greater than or equal to aggregate container limits of "+parts.String()))
		}
	}
	for i := range spec.Containers {
		limits := spec.Containers[i].Resources.Limits
		for _, name := range sortedNames(limits) {
			whole, given := spec.Resources.Limits[name]
			if part := limits[name]; given && part.Cmp(whole) > 0 {
				at := path.Child("containers").Index(i).Key(string(name)).Child("limits")
				errs = append(errs, field.Invalid(at, part.String(), "must be less than or equal to pod limits of "+whole.String()))
			}
		}
	}
	return errs
}
