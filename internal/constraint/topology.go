package constraint

import "github.com/kerfdev/kerf/internal/model"

// SkewOK reports whether one more pod may go to a domain under a topology
// spread constraint with DoNotSchedule (Kubernetes 1.37): the domain's count,
// with the pod itself where the constraint's selector picks it (self), may
// exceed the least count of any domain by at most maxSkew. counts holds the
// matching pods of every eligible domain, including those at zero; a domain that
// it lacks is not eligible. With fewer than minDomains domains the least count
// is taken for zero; minDomains 0 is 1.
//
// Domains that could be launched count as well: put them in at zero. For
// kubernetes.io/hostname that makes the least count zero, as Karpenter 1.15 has it.
func SkewOK(counts map[string]int, domain string, self bool, maxSkew, minDomains int) bool {
	count, ok := counts[domain]
	if !ok {
		return false
	}
	if self {
		count++
	}
	return count-least(counts, minDomains) <= maxSkew
}

func least(counts map[string]int, minDomains int) int {
	if len(counts) == 0 || len(counts) < minDomains {
		return 0
	}
	first, out := true, 0
	for _, n := range counts {
		if first || n < out {
			first, out = false, n
		}
	}
	return out
}

// SpreadEligible reports whether a node's domain takes part in a pod's spread
// constraint: the node has the topology key and, unless nodeAffinityPolicy is
// Ignore, meets the pod's node selector and required affinity, and, where
// nodeTaintsPolicy is Honor, has no taint that the pod does not tolerate.
func SpreadEligible(c *model.Spread, spec *model.PodSpec, labels map[string]string, taints []model.Taint) bool {
	if _, ok := lookup(labels, c.TopologyKey); !ok {
		return false
	}
	if !c.IgnoreAffinity {
		if _, fails := selectorFails(spec.NodeSelector, labels); fails {
			return false
		}
		if _, ok := matchAny(spec.NodeAffinity, labels); !ok {
			return false
		}
	}
	if !c.HonorTaints {
		return true
	}
	_, ok := Tolerates(spec.Tolerations, taints)
	return ok
}

// SpreadCounts reports whether a pod counts for a spread constraint: it is in
// the constraint's namespace and the selector picks it.
func SpreadCounts(c *model.Spread, namespace string, labels map[string]string) bool {
	return namespace == c.SelectorNamespace && MatchSelector(c.Selector, labels)
}

// TermPicks reports whether a pod (anti-)affinity term speaks of a pod with the
// namespace and labels.
func TermPicks(t *model.PodTerm, namespace string, labels map[string]string) bool {
	return MatchSelector(t.Selector, labels) && sortedHas(t.Namespaces, namespace)
}

func sortedHas(sorted []string, s string) bool {
	for _, have := range sorted {
		if have >= s {
			return have == s
		}
	}
	return false
}

// AffinityOK reports whether a required pod affinity term admits a domain:
// some pod that the term picks is there already, or none is anywhere and the
// term picks the pod itself (self), so that the first of a group can start it.
// counts holds the picked pods by domain.
func AffinityOK(counts map[string]int, domain string, self bool) bool {
	if counts[domain] > 0 {
		return true
	}
	if !self {
		return false
	}
	for _, n := range counts {
		if n > 0 {
			return false
		}
	}
	return true
}

// AntiAffinityOK reports whether a required pod anti-affinity term admits a
// domain: no pod that the term picks is there. The rule holds both ways: ask it
// too for the terms of the pods that are placed, with the new pod as the picked.
func AntiAffinityOK(counts map[string]int, domain string) bool { return counts[domain] == 0 }

// PortsConflict reports whether a pod with host ports a and one with b cannot
// share a node: same port and protocol, on the same address or with either on
// every address. An empty protocol is TCP.
func PortsConflict(a, b []model.HostPort) bool {
	for _, x := range a {
		for _, y := range b {
			if x.Port == y.Port && protocol(x) == protocol(y) && (x.IP == y.IP || everywhere(x.IP) || everywhere(y.IP)) {
				return true
			}
		}
	}
	return false
}

func protocol(p model.HostPort) string {
	if p.Protocol == "" {
		return "TCP"
	}
	return p.Protocol
}

// everywhere reports whether an address stands for all of them. Kubernetes'
// scheduler knows only the IPv4 form; Karpenter takes "::" so too, and a plan
// that keeps apart what might clash is right under both.
func everywhere(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
