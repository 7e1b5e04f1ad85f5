package guard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

var objectRules = []Rule{
	{
		Name: "dra-admin-access", Severity: model.Error, Row: 21, Title: "a resource claim with admin access",
		Doc: "adminAccess gives a claim devices that others hold. Kubernetes asks for the label resource.kubernetes.io/admin-access: \"true\" on the namespace, which only an administrator should set; " +
			"with the label the claim is taken to be meant.",
		Fix: "take adminAccess away", Source: "Kubernetes 1.37, DRAAdminAccess", Except: "monitoring namespaces, by that label",
	},
	{
		Name: "admin-access-namespace", Severity: model.Info, Row: 21, Title: "a namespace whose claims may have admin access",
		Doc: "Whoever can create claims in a namespace with the label resource.kubernetes.io/admin-access: \"true\" can reach every device that DRA hands out.",
		Fix: "", Source: "Kubernetes 1.37, DRAAdminAccess", Except: "monitoring namespaces", Sees: ByScan,
	},
	{
		Name: "quota-key", Severity: model.Error, Title: "a ResourceQuota key that counts nothing",
		Doc: "The API server accepts nvidia.com/gpu and limits.nvidia.com/gpu in a ResourceQuota and counts nothing under them; only requests.nvidia.com/gpu limits.",
		Fix: "write requests.nvidia.com/gpu", Source: "Kubernetes 1.37, quota evaluator for pods; run",
	},
	{
		Name: "limit-range-gpu", Severity: model.Error, Title: "a LimitRange names an extended resource",
		Doc: "Its defaulting gives GPUs to containers that ask for none (max, default), or refuses the pods that ask for none (min, defaultRequest, Pod max), " +
			"as such a resource cannot be overcommitted.",
		Fix: "cap GPUs with a ResourceQuota", Source: "Kubernetes 1.37, LimitRanger; run",
	},
}

// adminLabel marks namespaces whose claims may have admin access.
const adminLabel = "resource.kubernetes.io/admin-access"

// ReviewObject applies the rules to an object that is no pod and makes none: a
// ResourceQuota, a LimitRange, a ResourceClaim, a ResourceClaimTemplate or a
// Namespace. Of anything else it finds nothing. The labels in the facts and
// exemptions of whole namespaces count as for pods.
func ReviewObject(d manifest.Document, f *Facts, ex Exemptions) []Finding {
	if f == nil {
		f = &Facts{}
	}
	r := objectReview{doc: d, labels: f.Labels, skip: ex.of(cmp.Or(d.Namespace, "default"), "")}
	switch d.Kind {
	case "ResourceQuota":
		r.quota()
	case "LimitRange":
		r.limitRange()
	case "ResourceClaim", "ResourceClaimTemplate":
		r.claim()
	case "Namespace":
		r.namespace()
	}
	return r.found
}

// An objectReview is one object under review.
type objectReview struct {
	doc    manifest.Document
	labels map[string]string
	skip   Exemptions
	found  []Finding
}

// say adds a finding of a rule at a path, unless the rule does not count here.
// Without a fix it has the rule's.
func (r *objectReview) say(name, field, text, fix string) {
	rule, _ := Named(name)
	severity, on := modeOf(r.labels, &rule)
	if !on || r.skip.covers(name) {
		return
	}
	r.found = append(r.found, Finding{
		Rule: name, Severity: severity, Text: text, Fix: cmp.Or(fix, rule.Fix),
		Place: model.Place{File: r.doc.File, Line: lineOf(r.doc.Root, field), Object: r.doc.Title(), Field: field},
	})
}

func (r *objectReview) quota() {
	hard := map[string]string{}
	for _, amount := range fields(r.doc.Root.At("spec", "hard")) {
		hard[amount.Name] = amount.Value.Str()
	}
	if text, fix := QuotaKeys(hard); text != "" {
		r.say("quota-key", "spec.hard", text, fix)
	}
}

// QuotaKeys says which keys of a ResourceQuota's hard limits look like extended
// resources and count nothing, and what to write instead; "" for none.
func QuotaKeys(hard map[string]string) (text, fix string) {
	var wrong, right []string
	for _, key := range slices.Sorted(maps.Keys(hard)) {
		if base, ok := uncounted(key); ok {
			wrong = append(wrong, key)
			right = append(right, fmt.Sprintf("requests.%s: %q", base, hard[key]))
		}
	}
	switch len(wrong) {
	case 0:
		return "", ""
	case 1:
		return wrong[0] + " in a ResourceQuota is accepted and counts nothing", "write " + right[0]
	}
	return list(wrong) + " in a ResourceQuota are accepted and count nothing", "write " + strings.Join(right, ", ")
}

// uncounted reports whether a quota key looks like an extended resource and is
// counted by no evaluator; base is the resource.
func uncounted(key string) (base string, ok bool) {
	base = strings.TrimPrefix(key, "limits.")
	if strings.HasPrefix(key, "requests.") || strings.HasPrefix(key, "count/") || !extended(base) {
		return "", false
	}
	return base, !strings.Contains(base, "storageclass.storage.k8s.io/") && !strings.Contains(base, "deviceclass.resource.k8s.io/") &&
		!strings.Contains(base, "volumeattributesclass.storage.k8s.io/")
}

// extended reports whether a name is that of an extended resource (Kubernetes 1.37).
func extended(name string) bool {
	return strings.Contains(name, "/") && !strings.Contains(name, "kubernetes.io/")
}

func (r *objectReview) limitRange() {
	for i, item := range items(r.doc.Root.At("spec", "limits")) {
		l := model.LimitRange{Type: item.Get("type").Str(), Fields: map[string]map[string]string{}}
		for _, f := range fields(item) {
			if f.Value == nil || f.Value.Kind != manifest.Map {
				continue
			}
			l.Fields[f.Name] = map[string]string{}
			for _, amount := range f.Value.Fields {
				l.Fields[f.Name][amount.Name] = amount.Value.Str()
			}
		}
		for _, e := range LimitEffects(l) {
			r.say("limit-range-gpu", "spec.limits["+strconv.Itoa(i)+"]", e.Text, e.Fix)
		}
	}
}

// An Effect is what an item of a LimitRange does to pods that do not name a resource.
type Effect struct{ Text, Fix string }

// LimitEffects lists the effects of an item of a LimitRange on the extended
// resources that it names, in the order of their names.
func LimitEffects(l model.LimitRange) []Effect {
	var out []Effect
	for _, name := range limited(l) {
		if text := limitEffect(l, name); text != "" {
			out = append(out, Effect{text, fmt.Sprintf("take %s out of the LimitRange and cap it with a ResourceQuota: requests.%s", name, name)})
		}
	}
	return out
}

// limited lists the extended resources that a LimitRange names.
func limited(l model.LimitRange) []string {
	names := map[string]bool{}
	for _, amounts := range l.Fields {
		for name := range amounts {
			if extended(name) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// limitEffect says what the LimitRange does to pods that do not name the
// resource, "" for nothing.
func limitEffect(l model.LimitRange, name string) string {
	maximum, hasMax := l.Fields["max"][name]
	minimum, hasMin := l.Fields["min"][name]
	def, hasDefault := l.Fields["default"][name]
	request, hasRequest := l.Fields["defaultRequest"][name]
	switch {
	case l.Type == "Pod" && hasMax:
		return fmt.Sprintf("type Pod with max %s: %s refuses every pod that asks for none", name, maximum)
	case l.Type == "Pod" && hasMin:
		return fmt.Sprintf("type Pod with min %s: %s refuses every pod that asks for none", name, minimum)
	case l.Type != "Container":
		return ""
	case hasDefault && zero(def):
		return fmt.Sprintf("default %s: 0 gives every container an entry of 0, and with it the pod the toleration of %s nodes", name, name)
	case hasDefault:
		return fmt.Sprintf("default %s: %s gives %s of it to every container that asks for none, sidecars too", name, def, def)
	case hasMax:
		return fmt.Sprintf("max %s: %s becomes the default, so every container that asks for none gets %s, sidecars too", name, maximum, maximum)
	case hasMin:
		return fmt.Sprintf("min %s: %s becomes a request without a limit, so every pod with a container that asks for none is refused", name, minimum)
	case hasRequest && !zero(request):
		return fmt.Sprintf("defaultRequest %s: %s is a request without a limit, so every pod with a container that asks for none is refused", name, request)
	}
	return ""
}

func zero(quantity string) bool { return strings.Trim(quantity, "0.+") == "" }

// claim looks for admin access in every version of the API: v1beta1 has it beside
// the device class, later ones below exactly.
func (r *objectReview) claim() {
	if r.labels[adminLabel] == "true" {
		return
	}
	path := "spec.devices.requests"
	if r.doc.Kind == "ResourceClaimTemplate" {
		path = "spec." + path
	}
	requests, _ := r.doc.Root.Find(path)
	for i, n := range items(requests) {
		for _, field := range []string{".adminAccess", ".exactly.adminAccess"} {
			at := path + "[" + strconv.Itoa(i) + "]" + field
			if value, ok := r.doc.Root.Find(at); ok && value.Str() == "true" {
				r.say("dra-admin-access", at, "request "+n.Get("name").Str()+" asks for admin access: it is given devices that others hold", "")
				return
			}
		}
	}
}

func (r *objectReview) namespace() {
	if r.doc.Root.At("metadata", "labels", adminLabel).Str() == "true" {
		r.say("admin-access-namespace", "metadata.labels["+adminLabel+"]", "claims in this namespace may have admin access to devices that others hold", "")
	}
}
