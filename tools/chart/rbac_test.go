package chart

import (
	"slices"
	"strings"
	"testing"
)

// asks spells out what is asked: "get,list apps daemonsets", with the core
// group as "core", and "@namespace" and "=name" behind it where these are fixed.
func asks(t *testing.T, lines string) []Ask {
	t.Helper()
	var out []Ask
	for line := range strings.Lines(lines) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) < 3 {
			t.Fatalf("line %q", line)
		}
		ask := Ask{Group: strings.TrimSuffix(words[1], "core")}
		for _, w := range words[3:] {
			switch {
			case strings.HasPrefix(w, "@"):
				ask.Namespace = w[1:]
			case strings.HasPrefix(w, "="):
				ask.Name = w[1:]
			}
		}
		for verb := range strings.SplitSeq(words[0], ",") {
			for resource := range strings.SplitSeq(words[2], ",") {
				ask.Verb, ask.Resource = verb, resource
				out = append(out, ask)
			}
		}
	}
	return out
}

// What kerf-controller asks of the API server, by who asks it.
const controllerAsks = `
# internal/controller: the brain's watches
get,list,watch core namespaces,persistentvolumes,persistentvolumeclaims,limitranges,nodes,pods
get,list,watch storage.k8s.io storageclasses
get,list,watch node.k8s.io runtimeclasses
get,list,watch apps daemonsets
get,list,watch karpenter.sh nodepools,nodeclaims
get,list,watch karpenter.k8s.aws ec2nodeclasses
# internal/controller: orders and events
create karpenter.sh nodeclaims
create,patch,get core events
# internal/controller: nominations
patch core pods/status
# internal/controller: is Karpenter here, are there objects of old versions
list coordination.k8s.io leases =karpenter-leader-election
list apps deployments
list karpenter.sh provisioners
list karpenter.k8s.aws awsnodetemplates
# internal/controller: one of several replicas works
create coordination.k8s.io leases @kerf-system
get,update coordination.k8s.io leases @kerf-system =kerf-controller-leader-election
# internal/cloud: device configs
get,list,watch core configmaps
# internal/hands and karpenter 1.15: claims, pools, drains, disruption
create,delete,update,patch karpenter.sh nodeclaims
update,patch karpenter.sh nodeclaims/status,nodepools,nodepools/status
patch,delete core nodes
delete core pods
create core pods/eviction
list,watch policy poddisruptionbudgets
get,list,watch storage.k8s.io csinodes,volumeattachments
`

const onAWSAsks = `
# karpenter-provider-aws 1.15
update,patch karpenter.k8s.aws ec2nodeclasses,ec2nodeclasses/status
get core services @kube-system =kube-dns
`

const simulatedAsks = `
# internal/cloud: machines that do not exist
create,patch core nodes
patch core nodes/status
delete core pods
create,patch coordination.k8s.io leases @kube-node-lease
patch karpenter.k8s.aws ec2nodeclasses/status
get,list,watch karpenter.kwok.sh kwoknodeclasses
patch karpenter.kwok.sh kwoknodeclasses/status
`

const guardAsks = `
# internal/admission
get core namespaces,configmaps
get node.k8s.io runtimeclasses
create core pods @kerf-system
create core secrets @kerf-system
get,update core secrets @kerf-system =kerf-guard-tls
create admissionregistration.k8s.io validatingwebhookconfigurations,mutatingwebhookconfigurations
get,update admissionregistration.k8s.io validatingwebhookconfigurations,mutatingwebhookconfigurations =kerf-guard
`

const nodeAsks = `
# internal/nodeconfig and internal/discovery
list,watch,get,patch core nodes
patch core nodes/status
create core events @default
`

const cleanupAsks = `
# kerf-node labels --remove --all
list,patch core nodes
`

func TestTheRolesAllowWhatIsAsked(t *testing.T) {
	controller, node := Account{"kerf-system", "kerf-controller"}, Account{"kerf-system", "kerf-node"}
	withGuard := "controller: {settings: {clusterName: prod}, guard: {enabled: true}}"
	for name, c := range map[string]struct {
		values, asks string
		by           Account
	}{
		"the controller on AWS":             {onAWS, controllerAsks + onAWSAsks, controller},
		"the controller on a simulated one": {"controller: {cloud: simulated}", controllerAsks + simulatedAsks, controller},
		"the guard":                         {withGuard, guardAsks, controller},
		"the agent":                         {onAWS, nodeAsks, node},
		"the end of the agent":              {onAWS, cleanupAsks, Account{"kerf-system", "kerf-node-cleanup"}},
		"an account that is given":          {"controller: {settings: {clusterName: prod}, serviceAccount: {create: false, name: mine}}", controllerAsks, Account{"kerf-system", "mine"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := render(t, c.values).Objects
			for _, ask := range asks(t, c.asks) {
				if !Allowed(objects, c.by, ask) {
					t.Errorf("%s may not %+v", c.by.Name, ask)
				}
			}
		})
	}
}

func TestTheRolesAllowNoMore(t *testing.T) {
	forbidden := asks(t, `
get,list core secrets
get,list core secrets @kerf-system
get core secrets @kerf-system =kerf-guard-tls
create core pods
create,patch core pods @kube-system
patch core nodes/status
create core nodes
update,patch,delete core configmaps
delete karpenter.sh nodepools
update coordination.k8s.io leases @kube-system =karpenter-leader-election
update admissionregistration.k8s.io validatingwebhookconfigurations =kerf-guard
escalate,bind rbac.authorization.k8s.io clusterroles
`)
	objects := render(t, onAWS).Objects
	for _, ask := range forbidden {
		if Allowed(objects, Account{"kerf-system", "kerf-controller"}, ask) {
			t.Errorf("without the guard, kerf-controller may %+v", ask)
		}
	}
	for _, ask := range append(forbidden, asks(t, "delete core nodes,pods\ncreate core events @kube-system\nget core configmaps @kerf-system")...) {
		if ask.Resource != "nodes/status" && Allowed(objects, Account{"kerf-system", "kerf-node"}, ask) {
			t.Errorf("kerf-node may %+v", ask)
		}
	}
	for _, o := range objects {
		list, _ := o["rules"].([]any)
		for _, item := range list {
			r, _ := item.(map[string]any)
			for _, field := range []string{"apiGroups", "resources", "verbs"} {
				if slices.Contains(Object(r).list(field), "*") {
					t.Errorf("%s %s has a rule for everything", o.text("kind"), o.name())
				}
			}
		}
	}
}

// A role without a binding, or a binding without a role, gives nothing.
func TestRolesAndBindingsGoTogether(t *testing.T) {
	objects := render(t, "controller: {settings: {clusterName: prod}, guard: {enabled: true}}").Objects
	has := func(kind, namespace, name string) bool {
		return slices.ContainsFunc(objects, func(o Object) bool {
			return o.text("kind") == kind && o.namespace() == namespace && o.name() == name
		})
	}
	for _, o := range objects {
		switch kind := o.text("kind"); kind {
		case "Role", "ClusterRole":
			if !has(kind+"Binding", o.namespace(), o.name()) {
				t.Errorf("%s %s is bound to nobody", kind, o.name())
			}
		case "RoleBinding", "ClusterRoleBinding":
			if !has(o.at("roleRef").text("kind"), o.namespace(), o.at("roleRef").text("name")) {
				t.Errorf("%s %s has no role", kind, o.name())
			}
		case "Deployment", "DaemonSet", "Job":
			if account, _ := o.pod()["serviceAccountName"].(string); !has("ServiceAccount", o.namespace(), account) {
				t.Errorf("%s %s has no service account %s", kind, o.name(), account)
			}
		}
	}
}
