package workload

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateLimitRange says what the API server of Kubernetes 1.37 refuses in a
// LimitRange, after its own defaulting.
func validateLimitRange(v *corev1.LimitRange) []fault {
	var errs field.ErrorList
	seen := map[corev1.LimitType]bool{}
	for i := range v.Spec.Limits {
		item := &v.Spec.Limits[i]
		at := field.NewPath("spec", "limits").Index(i)
		if seen[item.Type] {
			errs = append(errs, field.Duplicate(at.Child("type"), item.Type))
		}
		seen[item.Type] = true
		errs = append(errs, validateLimitNames(item, at)...)
		for _, name := range sortedNames(item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio) {
			errs = append(errs, validateLimitItem(item, name, at)...)
		}
	}
	return faults(errs)
}

func validateLimitNames(item *corev1.LimitRangeItem, path *field.Path) field.ErrorList {
	check := containerName
	switch item.Type {
	case corev1.LimitTypePod, corev1.LimitTypeContainer:
	case corev1.LimitTypePersistentVolumeClaim:
		check = anyName
	default:
		return field.ErrorList{field.Invalid(path.Child("type"), item.Type, "must be a standard limit type or fully qualified")}
	}
	var errs field.ErrorList
	if item.Type == corev1.LimitTypePod && len(item.Default) > 0 {
		errs = append(errs, field.Forbidden(path.Child("default"), "may not be specified when `type` is 'Pod'"))
	}
	if item.Type == corev1.LimitTypePod && len(item.DefaultRequest) > 0 {
		errs = append(errs, field.Forbidden(path.Child("defaultRequest"), "may not be specified when `type` is 'Pod'"))
	}
	for _, l := range []struct {
		name string
		list corev1.ResourceList
	}{{"max", item.Max}, {"min", item.Min}, {"default", item.Default}, {"defaultRequest", item.DefaultRequest}} {
		for _, name := range sortedNames(l.list) {
			errs = append(errs, check(string(name), path.Child(l.name).Key(string(name)))...)
		}
	}
	return errs
}

// validateLimitItem checks the bounds of one resource against each other.
func validateLimitItem(item *corev1.LimitRangeItem, name corev1.ResourceName, path *field.Path) field.ErrorList {
	least, hasMin := item.Min[name]
	bound, hasMax := item.Max[name]
	limit, hasLimit := item.Default[name]
	request, hasRequest := item.DefaultRequest[name]
	var errs field.ErrorList
	add := func(where string, value resource.Quantity, format string, args ...any) {
		errs = append(errs, field.Invalid(path.Child(where).Key(string(name)), value, fmt.Sprintf(format, args...)))
	}
	if hasMin && hasMax && least.Cmp(bound) > 0 {
		add("min", least, "min value %s is greater than max value %s", least.String(), bound.String())
	}
	if hasRequest && hasMin && least.Cmp(request) > 0 {
		add("defaultRequest", request, "min value %s is greater than default request value %s", least.String(), request.String())
	}
	if hasRequest && hasMax && request.Cmp(bound) > 0 {
		add("defaultRequest", request, "default request value %s is greater than max value %s", request.String(), bound.String())
	}
	if hasRequest && hasLimit && request.Cmp(limit) > 0 {
		add("defaultRequest", request, "default request value %s is greater than default limit value %s", request.String(), limit.String())
	}
	if hasLimit && hasMin && least.Cmp(limit) > 0 {
		add("default", least, "min value %s is greater than default value %s", least.String(), limit.String())
	}
	if hasLimit && hasMax && limit.Cmp(bound) > 0 {
		add("default", bound, "default value %s is greater than max value %s", limit.String(), bound.String())
	}
	if ratio, ok := item.MaxLimitRequestRatio[name]; ok && ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
		add("maxLimitRequestRatio", ratio, "ratio %s is less than 1", ratio.String())
	}
	if !isOvercommitted(string(name)) && hasLimit && hasRequest && limit.Cmp(request) != 0 {
		add("defaultRequest", request, "default value %s must equal to defaultRequest value %s in %s", limit.String(), request.String(), name)
	}
	return errs
}

// validateQuota says what the API server of Kubernetes 1.37 refuses in a
// ResourceQuota. A key that counts nothing, such as nvidia.com/gpu, is accepted.
func validateQuota(v *corev1.ResourceQuota) []fault {
	var errs field.ErrorList
	for _, name := range sortedNames(v.Spec.Hard) {
		at := field.NewPath("spec", "hard").Key(string(name))
		errs = append(errs, validateAmount(name, v.Spec.Hard[name], quotaName, at)...)
	}
	return faults(errs)
}

func quotaName(name string, path *field.Path) field.ErrorList {
	errs := anyName(name, path)
	_, known := standard[name]
	known = known && name != "storage" || isHugePage(strings.TrimPrefix(name, corev1.DefaultResourceRequestsPrefix))
	if !strings.Contains(name, "/") && !known {
		errs = append(errs, field.Invalid(path, name, "must be a standard resource for quota"))
	}
	return errs
}
