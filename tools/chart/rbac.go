package chart

import "slices"

// An Account is a service account as "namespace/name".
type Account struct{ Namespace, Name string }

// An Ask is a request to the API server.
type Ask struct {
	Verb, Group, Resource string
	Namespace             string // "" = of the cluster, or in all namespaces
	Name                  string // "" = the request names no object, or may name any
}

// A rule is one of a role, where it holds.
type rule struct {
	Object
	namespace string // "" = everywhere
}

// Allowed reports whether the roles among objects allow an account to ask, by
// the rules of Kubernetes' RBAC.
func Allowed(objects []Object, a Account, ask Ask) bool {
	return slices.ContainsFunc(rules(objects, a), func(r rule) bool {
		return (r.namespace == "" || r.namespace == ask.Namespace) && r.allows(ask)
	})
}

func (r rule) allows(ask Ask) bool {
	has := func(field, want string) bool {
		list := r.list(field)
		return slices.Contains(list, want) || slices.Contains(list, "*")
	}
	names := r.list("resourceNames")
	return has("apiGroups", ask.Group) && has("resources", ask.Resource) && has("verbs", ask.Verb) &&
		(len(names) == 0 || slices.Contains(names, ask.Name))
}

// rules are those that are bound to an account.
func rules(objects []Object, a Account) []rule {
	var out []rule
	for _, b := range objects {
		kind := b.text("kind")
		if kind != "ClusterRoleBinding" && kind != "RoleBinding" || !binds(b, a) {
			continue
		}
		ref := b.at("roleRef")
		for _, role := range objects {
			if role.text("kind") != ref.text("kind") || role.name() != ref.text("name") || role.namespace() != "" && role.namespace() != b.namespace() {
				continue
			}
			list, _ := role["rules"].([]any)
			for _, item := range list {
				m, _ := item.(map[string]any)
				out = append(out, rule{m, b.namespace()})
			}
		}
	}
	return out
}

// binds reports whether an account is among the subjects of a binding.
func binds(binding Object, a Account) bool {
	list, _ := binding["subjects"].([]any)
	return slices.ContainsFunc(list, func(item any) bool {
		s := Object{}
		s, _ = item.(map[string]any)
		return s.text("kind") == "ServiceAccount" && s.text("name") == a.Name && s.text("namespace") == a.Namespace
	})
}
