package workload

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// A limitsInForce is a LimitRange that the API server applies to new pods.
type limitsInForce struct {
	object *object
	items  []corev1.LimitRangeItem // after defaulting
}

// limitRange reads a LimitRange and defaults it as Kubernetes 1.37 does. That
// is where "max: 2 GPUs" turns into "2 GPUs for everyone who asks for none".
func (r *reader) limitRange(o *object) {
	var v corev1.LimitRange
	r.decode(o, &v)
	for i := range v.Spec.Limits {
		item := &v.Spec.Limits[i]
		r.out.LimitRanges = append(r.out.LimitRanges, model.LimitRange{
			Namespace: o.namespace(), Name: v.Name, Type: string(item.Type),
			Fields: writtenLimits(o, i), Place: o.place(fmt.Sprintf("spec.limits[%d]", i)),
		})
		defaultLimits(item)
	}
	faults := validateLimitRange(&v)
	r.refuse(o, faults)
	if len(faults) == 0 && len(o.refused) == 0 {
		r.cluster.ranges[o.namespace()] = append(r.cluster.ranges[o.namespace()], limitsInForce{o, v.Spec.Limits})
	}
}

// writtenLimits is one item as the user wrote it.
func writtenLimits(o *object, i int) map[string]map[string]string {
	out := map[string]map[string]string{}
	item, ok := o.tree().Find(fmt.Sprintf("spec.limits[%d]", i))
	if !ok {
		return out
	}
	for _, f := range item.Fields {
		if f.Value == nil || f.Value.Kind != manifest.Map {
			continue
		}
		out[f.Name] = map[string]string{}
		for _, amount := range f.Value.Fields {
			out[f.Name][amount.Name] = amount.Value.Str()
		}
	}
	return out
}

// defaultLimits fills default from max, defaultRequest from default, and
// defaultRequest from min, in that order and for containers only.
func defaultLimits(item *corev1.LimitRangeItem) {
	if item.Type != corev1.LimitTypeContainer {
		return
	}
	item.Default = filled(item.Default, item.Max)
	item.DefaultRequest = filled(filled(item.DefaultRequest, item.Default), item.Min)
}

// filled returns list with the entries of from that it lacks.
func filled(list, from corev1.ResourceList) corev1.ResourceList {
	if len(from) == 0 {
		return list
	}
	out := maps.Clone(from)
	maps.Copy(out, list)
	return out
}

// injectLimits gives every container the defaults of the namespace's limit
// ranges for what it does not name itself.
func injectLimits(spec *corev1.PodSpec, ranges []limitsInForce) {
	for _, lr := range ranges {
		for _, item := range lr.items {
			if item.Type != corev1.LimitTypeContainer {
				continue
			}
			for _, c := range containersOf(spec) {
				c.Resources.Limits = filled(c.Resources.Limits, item.Default)
				c.Resources.Requests = filled(c.Resources.Requests, item.DefaultRequest)
			}
		}
	}
}

// injected names the extended resources that a limit range would give to a
// container that asks for none of them.
func injected(c *corev1.Container, ranges []limitsInForce) (name corev1.ResourceName, from *object) {
	for _, lr := range ranges {
		for _, item := range lr.items {
			for _, name := range sortedNames(item.Default, item.DefaultRequest) {
				_, limited := c.Resources.Limits[name]
				_, asked := c.Resources.Requests[name]
				if item.Type == corev1.LimitTypeContainer && isExtended(string(name)) && !limited && !asked {
					return name, lr.object
				}
			}
		}
	}
	return "", nil
}

// checkLimits says which limit range a pod breaks, in the API server's words.
func checkLimits(spec *corev1.PodSpec, base string, ranges []limitsInForce) []fault {
	var out []fault
	for _, lr := range ranges {
		for _, item := range lr.items {
			switch item.Type {
			case corev1.LimitTypeContainer:
				for i, c := range containersOf(spec) {
					out = append(out, checkItem(item, containerPath(spec, base, i)+".resources", lr.object, c.Resources.Requests, c.Resources.Limits)...)
				}
			case corev1.LimitTypePod:
				out = append(out, checkItem(item, base, lr.object, podRequests(spec, false), podLimits(spec))...)
			}
		}
	}
	return out
}

func checkItem(item corev1.LimitRangeItem, path string, from *object, requests, limits corev1.ResourceList) []fault {
	var out []fault
	add := func(words string) {
		if words != "" {
			out = append(out, fault{Field: path, Body: words, Fix: "change " + from.doc.Title() + " at " + from.place("spec.limits").String()})
		}
	}
	for _, name := range sortedNames(item.Min) {
		add(belowMin(item, name, requests, limits))
	}
	for _, name := range sortedNames(item.Max) {
		add(aboveMax(item, name, requests, limits))
	}
	for _, name := range sortedNames(item.MaxLimitRequestRatio) {
		add(aboveRatio(item, name, requests, limits))
	}
	return out
}

func belowMin(item corev1.LimitRangeItem, name corev1.ResourceName, requests, limits corev1.ResourceList) string {
	bound := item.Min[name]
	head := fmt.Sprintf("minimum %s usage per %s is %s", name, item.Type, bound.String())
	request, asked := requests[name]
	limit, limited := limits[name]
	switch {
	case !asked:
		return head + ".  No request is specified"
	case request.Cmp(bound) < 0:
		return head + ", but request is " + request.String()
	case limited && limit.Cmp(bound) < 0:
		return head + ", but limit is " + limit.String()
	}
	return ""
}

func aboveMax(item corev1.LimitRangeItem, name corev1.ResourceName, requests, limits corev1.ResourceList) string {
	bound := item.Max[name]
	head := fmt.Sprintf("maximum %s usage per %s is %s", name, item.Type, bound.String())
	request, asked := requests[name]
	limit, limited := limits[name]
	switch {
	case !limited:
		return head + ".  No limit is specified"
	case limit.Cmp(bound) > 0:
		return head + ", but limit is " + limit.String()
	case asked && request.Cmp(bound) > 0:
		return head + ", but request is " + request.String()
	}
	return ""
}

func aboveRatio(item corev1.LimitRangeItem, name corev1.ResourceName, requests, limits corev1.ResourceList) string {
	bound := item.MaxLimitRequestRatio[name]
	head := fmt.Sprintf("%s max limit to request ratio per %s is %s", name, item.Type, bound.String())
	request, limit := requests[name], limits[name]
	if request.IsZero() {
		return head + ", but no request is specified or request is 0"
	}
	if limit.IsZero() {
		return head + ", but no limit is specified or limit is 0"
	}
	if ratio := limit.AsApproximateFloat64() / request.AsApproximateFloat64(); ratio > bound.AsApproximateFloat64() {
		return head + fmt.Sprintf(", but provided ratio is %f", ratio)
	}
	return ""
}

// sortedNames lists the names in any of the lists, sorted.
func sortedNames(lists ...corev1.ResourceList) []corev1.ResourceName {
	seen := map[corev1.ResourceName]resource.Quantity{}
	for _, l := range lists {
		maps.Copy(seen, l)
	}
	return slices.Sorted(maps.Keys(seen))
}
