package guard

import (
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
)

// Names of the objects by which a cluster enforces the guard.
const (
	PolicyName  = "kerf-guard-pods-deny" // the policy that refuses pods, and its binding
	WebhookName = "kerf-guard"           // the webhook configuration
)

// Sign says by which object of the documents a cluster enforces the guard: a
// binding of its policy that denies, or its webhook. It is "" where there is none.
func Sign(docs []manifest.Document) string {
	for _, d := range docs {
		if !strings.HasPrefix(d.APIVersion, "admissionregistration.k8s.io/") {
			continue
		}
		switch d.Kind {
		case "ValidatingAdmissionPolicyBinding":
			for _, action := range items(d.Root.At("spec", "validationActions")) {
				if action.Str() == "Deny" && d.Root.At("spec", "policyName").Str() == PolicyName {
					return d.Title()
				}
			}
		case "ValidatingWebhookConfiguration":
			if d.Name == WebhookName {
				return d.Title()
			}
		}
	}
	return ""
}

// Refusals lists, by the place of their spec, the pods and templates that the
// guard would keep out, each with what it found. Pods that a cluster has stored
// are in already and are left out.
func Refusals(docs []manifest.Document, ex Exemptions) map[Spec][]Finding {
	inv := Read(slices.DeleteFunc(slices.Clone(docs), func(d manifest.Document) bool { return d.Kind == "Pod" && live(d) }))
	out := map[Spec][]Finding{}
	for i := range inv.Pods {
		p := &inv.Pods[i]
		if found := Refused(Review(p, inv.Facts(p.Namespace), ex)); len(found) > 0 {
			out[Spec{p.Place.File, p.Place.Object, p.Place.Field}] = found
		}
	}
	return out
}

// A Spec names a pod spec by where it is written.
type Spec struct{ File, Object, Field string }
