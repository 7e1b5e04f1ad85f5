package constraint

import (
	"testing"

	"github.com/kerfdev/kerf/internal/model"
)

func TestTolerates(t *testing.T) {
	gpu := model.Taint{Key: "nvidia.com/gpu", Value: "true", Effect: model.NoSchedule}
	tests := map[string]struct {
		tol     []model.Toleration
		taints  []model.Taint
		effects []string
		fails   string // key of the taint, "" when tolerated
	}{
		"no taints":                           {},
		"no tolerations":                      {taints: []model.Taint{gpu}, fails: gpu.Key},
		"Exists covers any value":             {tol: []model.Toleration{{Key: gpu.Key, Operator: "Exists", Effect: model.NoSchedule}}, taints: []model.Taint{gpu}},
		"no operator is Equal":                {tol: []model.Toleration{{Key: gpu.Key, Value: "true"}}, taints: []model.Taint{gpu}},
		"Equal with another value":            {tol: []model.Toleration{{Key: gpu.Key, Operator: "Equal", Value: "present"}}, taints: []model.Taint{gpu}, fails: gpu.Key},
		"another effect":                      {tol: []model.Toleration{{Key: gpu.Key, Operator: "Exists", Effect: model.NoExecute}}, taints: []model.Taint{gpu}, fails: gpu.Key},
		"an empty key with Exists covers all": {tol: []model.Toleration{{Operator: "Exists"}}, taints: []model.Taint{gpu, {Key: "x", Effect: model.NoExecute}}},
		"a key that only begins alike":        {tol: []model.Toleration{{Key: gpu.Key, Operator: "Exists"}}, taints: []model.Taint{{Key: "nvidia.com/gpu-shared", Effect: model.NoSchedule}}, fails: "nvidia.com/gpu-shared"},
		"the second of two taints":            {tol: []model.Toleration{{Key: gpu.Key, Operator: "Exists"}}, taints: []model.Taint{gpu, {Key: "x", Effect: model.NoExecute}}, fails: "x"},
		"PreferNoSchedule never blocks":       {taints: []model.Taint{{Key: "x", Effect: model.PreferNoSchedule}}},
		"PreferNoSchedule when asked for":     {taints: []model.Taint{{Key: "x", Effect: model.PreferNoSchedule}}, effects: []string{model.PreferNoSchedule}, fails: "x"},
		"only the effects asked for":          {taints: []model.Taint{gpu}, effects: []string{model.NoExecute}},
		"Lt compares the taint's number":      {tol: []model.Toleration{{Key: "x", Operator: "Lt", Value: "10"}}, taints: []model.Taint{{Key: "x", Value: "9", Effect: model.NoSchedule}}},
		"Gt fails on equality":                {tol: []model.Toleration{{Key: "x", Operator: "Gt", Value: "9"}}, taints: []model.Taint{{Key: "x", Value: "9", Effect: model.NoSchedule}}, fails: "x"},
		"Lt wants numbers in canonical form":  {tol: []model.Toleration{{Key: "x", Operator: "Lt", Value: "10"}}, taints: []model.Taint{{Key: "x", Value: "09", Effect: model.NoSchedule}}, fails: "x"},
		"an unknown operator covers nothing":  {tol: []model.Toleration{{Key: gpu.Key, Operator: "Like", Value: "true"}}, taints: []model.Taint{gpu}, fails: gpu.Key},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			taint, ok := Tolerates(tc.tol, tc.taints, tc.effects...)
			if ok != (tc.fails == "") || taint.Key != tc.fails {
				t.Errorf("got %+v, %v; want %q", taint, ok, tc.fails)
			}
		})
	}
}

func TestSpreadEligible(t *testing.T) {
	spec := model.PodSpec{NodeSelector: map[string]string{"gpu": "t4"}, Volumes: []model.Volume{{Terms: []model.Term{{{Key: "x", Operator: model.Exists}}}}}}
	t4 := map[string]string{"gpu": "t4", "zone": "a"}
	tainted := []model.Taint{{Key: "x", Effect: model.NoSchedule}}
	tests := map[string]struct {
		spread model.Spread
		labels map[string]string
		taints []model.Taint
		want   bool
	}{
		"a node of the pod's kind, volumes aside":         {labels: t4, want: true},
		"a node without the topology key":                 {labels: map[string]string{"gpu": "t4"}},
		"a node that the selector bars":                   {labels: map[string]string{"gpu": "l4", "zone": "a"}},
		"a node that the selector bars, affinity ignored": {spread: model.Spread{IgnoreAffinity: true}, labels: map[string]string{"zone": "a"}, want: true},
		"a tainted node, by default":                      {labels: t4, taints: tainted, want: true},
		"a tainted node, taints honoured":                 {spread: model.Spread{HonorTaints: true}, labels: t4, taints: tainted},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.spread.TopologyKey = "zone"
			if got := SpreadEligible(&tc.spread, &spec, tc.labels, tc.taints); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestAffinityOK(t *testing.T) {
	counts := map[string]int{"z1": 2, "z2": 0}
	for domain, want := range map[string][2]bool{ // of a stranger, of one of them
		"z1": {true, true},
		"z2": {false, false},
	} {
		got := [2]bool{AffinityOK(counts, domain, false), AffinityOK(counts, domain, true)}
		if got != want {
			t.Errorf("%s: got %v, want %v", domain, got, want)
		}
	}
	if !AffinityOK(map[string]int{"z2": 0}, "z1", true) || AffinityOK(nil, "z1", false) {
		t.Error("the first of a group may start anywhere, a stranger may not")
	}
}

func TestPortsConflict(t *testing.T) {
	p := func(ip string, port int32, protocol string) []model.HostPort {
		return []model.HostPort{{IP: ip, Port: port, Protocol: protocol}}
	}
	tests := map[string]struct {
		a, b []model.HostPort
		want bool
	}{
		"the same port":                   {a: p("", 80, "TCP"), b: p("", 80, "TCP"), want: true},
		"another port":                    {a: p("", 80, "TCP"), b: p("", 81, "TCP")},
		"another protocol":                {a: p("", 80, "TCP"), b: p("", 80, "UDP")},
		"two addresses":                   {a: p("10.0.0.1", 80, "TCP"), b: p("10.0.0.2", 80, "TCP")},
		"one address against all":         {a: p("10.0.0.1", 80, "TCP"), b: p("0.0.0.0", 80, "TCP"), want: true},
		"one address against all of IPv6": {a: p("::", 80, "TCP"), b: p("::1", 80, "TCP"), want: true},
		"no protocol is TCP":              {a: p("", 80, ""), b: p("", 80, "TCP"), want: true},
		"nothing":                         {a: p("", 80, "TCP")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := PortsConflict(tc.a, tc.b); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if got := PortsConflict(tc.b, tc.a); got != tc.want {
				t.Errorf("turned round: got %v, want %v", got, tc.want)
			}
		})
	}
}

func BenchmarkTolerates(b *testing.B) {
	taints := []model.Taint{{Key: "nvidia.com/gpu", Value: "true", Effect: model.NoSchedule}, {Key: "x", Effect: model.NoExecute}}
	tolerations := []model.Toleration{{Key: "y"}, {Key: "nvidia.com/gpu", Operator: "Exists"}, {Key: "x", Operator: "Exists"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := Tolerates(tolerations, taints); !ok {
			b.Fatal("not tolerated")
		}
	}
}
