package constraint

import "github.com/kerfdev/kerf/internal/model"

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
