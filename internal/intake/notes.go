package intake

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/install"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/nodepool"
	"github.com/kerfdev/kerf/internal/source"
	"github.com/kerfdev/kerf/internal/workload"
)

// unique drops all but the last of the objects that are given more than once,
// as when kubectl applies the files in turn.
func (l *loader) unique(docs []manifest.Document) []manifest.Document {
	last := map[string]int{}
	for i, d := range docs {
		if key := identity(d); key != "" {
			last[key] = i
		}
	}
	var out []manifest.Document
	for i, d := range docs {
		at, named := last[identity(d)]
		if !named || at == i {
			out = append(out, d)
			continue
		}
		if d.Root.Line == 0 {
			continue // a cluster's, which the file would change
		}
		l.note(model.Warning, "repeated-object", model.Place{File: d.File, Line: d.Root.Line, Object: d.Title()},
			"this object is given again at "+model.Place{File: docs[at].File, Line: docs[at].Root.Line}.String()+"; the last one counts", "keep one of the two")
	}
	return out
}

// identity names an object; "" for what has no name of its own.
func identity(d manifest.Document) string {
	if d.APIVersion == "" || d.Name == "" {
		return ""
	}
	group := d.Group()
	if group == "extensions" {
		group = "apps"
	}
	return strings.Join([]string{group, d.Kind, cmp.Or(d.Namespace, "default"), d.Name}, "\x00")
}

// silent lists kinds of Kubernetes that make no pods and say nothing of where
// pods go.
var silent = []string{
	"/Endpoints", "/Event", "/Secret", "/Service", "/ServiceAccount", "admissionregistration.k8s.io/MutatingWebhookConfiguration",
	"admissionregistration.k8s.io/ValidatingAdmissionPolicy", "admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding",
	"admissionregistration.k8s.io/MutatingAdmissionPolicy", "admissionregistration.k8s.io/MutatingAdmissionPolicyBinding",
	"admissionregistration.k8s.io/ValidatingWebhookConfiguration", "apiextensions.k8s.io/CustomResourceDefinition", "apiregistration.k8s.io/APIService",
	"argoproj.io/AppProject", "cert-manager.io/Certificate", "cert-manager.io/Issuer", "certificates.k8s.io/CertificateSigningRequest",
	"coordination.k8s.io/Lease", "discovery.k8s.io/EndpointSlice", "kustomize.config.k8s.io/Kustomization", "monitoring.coreos.com/PodMonitor",
	"monitoring.coreos.com/PrometheusRule", "monitoring.coreos.com/ServiceMonitor", "networking.k8s.io/Ingress", "networking.k8s.io/IngressClass",
	"networking.k8s.io/NetworkPolicy", "rbac.authorization.k8s.io/ClusterRole", "rbac.authorization.k8s.io/ClusterRoleBinding",
	"rbac.authorization.k8s.io/Role", "rbac.authorization.k8s.io/RoleBinding", "storage.k8s.io/CSIDriver", "storage.k8s.io/CSINode",
}

// unread names the kinds that nobody reads: those that may make pods one by
// one, those that cannot all together.
func (l *loader) unread(docs []manifest.Document) {
	known := slices.Concat([]string{"kerf.dev/" + KindSnapshot}, workload.Kinds(), nodepool.Kinds(), install.Kinds())
	first := map[string]manifest.Document{}
	count := map[string]int{}
	var order, quiet []string
	for _, d := range docs {
		kind := d.Group() + "/" + d.Kind
		if slices.Contains(known, kind) {
			continue
		}
		if count[kind]++; count[kind] > 1 {
			continue
		}
		first[kind] = d
		if slices.Contains(silent, kind) {
			quiet = append(quiet, kind)
		} else {
			order = append(order, kind)
		}
	}
	for _, kind := range order {
		d := first[kind]
		l.note(model.Info, "not-modelled", model.Place{File: d.File, Line: d.Root.Line, Object: d.Title()},
			fmt.Sprintf("%s is read but not modelled; pods that its controller makes are not in the plan", counted(count[kind], d)),
			"give those pods too: kubectl get pods -o yaml")
	}
	if len(quiet) == 0 {
		return
	}
	slices.Sort(quiet)
	var parts []string
	for _, kind := range quiet {
		parts = append(parts, counted(count[kind], first[kind]))
	}
	l.note(model.Info, "not-modelled", model.Place{}, "read but not used, as they neither make pods nor place them: "+strings.Join(parts, ", "), "")
}

// counted writes "Service" or "Service (3 of them)".
func counted(n int, d manifest.Document) string {
	name := d.Kind
	if group := d.Group(); group != "" && !strings.HasSuffix(group, ".k8s.io") {
		name += " of " + group
	}
	if n > 1 {
		name += fmt.Sprintf(" (%d of them)", n)
	}
	return name
}

// assumptions states, each once, what was taken for granted.
func (l *loader) assumptions() {
	assumed := func(t model.Toleration) bool { return t.Assumed }
	if slices.ContainsFunc(l.snapshot.Pods, func(p model.Pod) bool { return slices.ContainsFunc(p.Spec.Tolerations, assumed) }) {
		l.note(model.Info, "assumed-toleration", model.Place{},
			"the admission plugin ExtendedResourceToleration is taken to be on: pods tolerate the taint of each extended resource that they ask for",
			"plan without it: --no-extended-resource-toleration")
	}
	for _, text := range l.types.Notes {
		l.note(model.Info, "catalogue", model.Place{}, text, "")
	}
}

// arranged sorts notes by file and line, those of no file last, and drops
// repetitions. Notes of one line keep their order.
func arranged(notes []model.Note, files []source.File) []model.Note {
	order := map[string]int{"": len(files) + 1}
	for i, f := range files {
		if _, again := order[f.Name]; !again {
			order[f.Name] = i
		}
	}
	at := func(n model.Note) int {
		if i, ok := order[n.Place.File]; ok {
			return i
		}
		return len(files)
	}
	out := slices.Clone(notes)
	slices.SortStableFunc(out, func(a, b model.Note) int {
		return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a.Place.Line, b.Place.Line))
	})
	seen := map[string]bool{}
	return slices.DeleteFunc(out, func(n model.Note) bool {
		key := fmt.Sprintf("%s\x00%s\x00%v\x00%s", n.Code, n.Place, n.Also, n.Text)
		again := seen[key]
		seen[key] = true
		return again
	})
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
