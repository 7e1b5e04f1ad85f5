package workload

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type m = map[string]any

func pick[T any](r *rand.Rand, xs ...T) T { return xs[r.IntN(len(xs))] }

func TestDiffReal(t *testing.T) {
	r := rand.New(rand.NewPCG(uint64(10), 3))
	labels := func() any {
		out := m{}
		for range r.IntN(3) {
			out[pick(r, "a", "b", "x/y", "bad key", "-z", "k8s.io/ok")] = pick(r, "v", "", "bad value", "w")
		}
		return out
	}
	rl := func() any {
		out := m{}
		for range r.IntN(4) {
			out[pick(r, "cpu", "memory", "nvidia.com/gpu", "nvidia.com/gpu", "gpu", "requests.nvidia.com/gpu", "hugepages-2Mi", "hugepages-x", "pods", "storage", "limits.cpu", "a/b/c", "kubernetes.io/x", "ephemeral-storage", "/gpu", "requests.cpu", "requests.hugepages-2Mi", "x.com/"+strings.Repeat("a", 60))] =
				pick[any](r, "1", "2", 1, 0, "500m", "-1", "1Gi", "4Mi", "3k", "0.5", "1e3", "100Ti")
		}
		return out
	}
	sel := func() any {
		s := m{}
		if r.IntN(2) == 0 {
			s["matchLabels"] = labels()
		}
		if r.IntN(2) == 0 {
			var l []any
			for range r.IntN(3) {
				e := m{"key": pick(r, "a", "b", "bad key", ""), "operator": pick(r, "In", "NotIn", "Exists", "DoesNotExist", "Gt", "")}
				if r.IntN(2) == 0 {
					e["values"] = pick(r, []string{}, []string{"v"}, []string{"bad v"}, []string{"v", "w"})
				}
				l = append(l, e)
			}
			s["matchExpressions"] = l
		}
		return s
	}
	nodeTerm := func() any {
		term := m{}
		var l []any
		for range r.IntN(3) {
			e := m{"key": pick(r, "a", "x/y", "bad key", ""), "operator": pick(r, "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Foo")}
			if r.IntN(2) == 0 {
				e["values"] = pick(r, []string{}, []string{"1"}, []string{"bad v"}, []string{"v", "w"})
			}
			l = append(l, e)
		}
		term["matchExpressions"] = l
		if r.IntN(4) == 0 {
			term["matchFields"] = []any{m{"key": pick(r, "metadata.name", "metadata.x"), "operator": pick(r, "In", "NotIn", "Exists"), "values": pick(r, []string{"n"}, []string{}, []string{"N_"})}}
		}
		return term
	}
	podTerm := func() m {
		out := m{"topologyKey": pick(r, "zone", "", "bad key")}
		if r.IntN(3) > 0 {
			out["labelSelector"] = sel()
		}
		if r.IntN(4) == 0 {
			out["namespaceSelector"] = sel()
		}
		if r.IntN(4) == 0 {
			out["namespaces"] = []string{pick(r, "ns", "Bad")}
		}
		if r.IntN(4) == 0 {
			out["matchLabelKeys"] = []string{pick(r, "a", "b", "bad key"), pick(r, "c", "x/y")}
		}
		if r.IntN(4) == 0 {
			out["mismatchLabelKeys"] = []string{pick(r, "a", "b", "bad key")}
		}
		return out
	}
	container := func() m {
		c := m{"name": pick(r, "c", "d", "e", "f", "g", "Bad_", ""), "image": pick(r, "i", "i", "i", "")}
		res := m{}
		if r.IntN(2) == 0 {
			res["limits"] = rl()
		}
		if r.IntN(2) == 0 {
			res["requests"] = rl()
		}
		if r.IntN(10) == 0 {
			res["claims"] = []any{m{"name": pick(r, "cl", "other")}}
		}
		c["resources"] = res
		if r.IntN(4) == 0 {
			c["ports"] = []any{m{"containerPort": pick(r, 80, 0, 70000), "hostPort": pick(r, 0, 80, 70000, 81), "protocol": pick(r, "TCP", "UDP", "X", "")}}
		}
		if r.IntN(10) == 0 {
			c["env"] = []any{m{"name": pick(r, "A", "")}}
		}
		return c
	}
	var pods []string
	for range 4000 {
		spec := m{}
		var cs, ics []any
		for range r.IntN(4) {
			cs = append(cs, container())
		}
		for range r.IntN(2) {
			c := container()
			if r.IntN(2) == 0 {
				c["restartPolicy"] = "Always"
			}
			ics = append(ics, c)
		}
		spec["containers"] = cs
		spec["initContainers"] = ics
		if r.IntN(4) == 0 {
			spec["nodeSelector"] = labels()
		}
		if r.IntN(4) == 0 {
			spec["hostNetwork"] = true
		}
		if r.IntN(4) == 0 {
			res := m{}
			if r.IntN(2) == 0 {
				res["limits"] = rl()
			}
			if r.IntN(2) == 0 {
				res["requests"] = rl()
			}
			spec["resources"] = res
		}
		if r.IntN(3) == 0 {
			var l []any
			for range r.IntN(3) {
				e := m{"key": pick(r, "a", "", "bad key", "nvidia.com/gpu"), "operator": pick(r, "", "Equal", "Exists", "Gt", "Lt", "Foo"), "effect": pick(r, "", "NoSchedule", "NoExecute", "Bad")}
				if r.IntN(2) == 0 {
					e["value"] = pick(r, "v", "bad v", "1")
				}
				if r.IntN(4) == 0 {
					e["tolerationSeconds"] = 3
				}
				l = append(l, e)
			}
			spec["tolerations"] = l
		}
		if r.IntN(3) == 0 {
			var l []any
			for range r.IntN(3) {
				e := m{"maxSkew": pick(r, 0, 1, -1), "topologyKey": pick(r, "", "zone", "bad key"), "whenUnsatisfiable": pick(r, "DoNotSchedule", "ScheduleAnyway", "", "X")}
				if r.IntN(2) == 0 {
					e["labelSelector"] = sel()
				}
				if r.IntN(4) == 0 {
					e["minDomains"] = pick(r, 0, 1)
				}
				if r.IntN(4) == 0 {
					e["nodeAffinityPolicy"] = pick(r, "Honor", "Ignore", "X")
				}
				if r.IntN(4) == 0 {
					e["matchLabelKeys"] = []string{pick(r, "a", "b", "bad key")}
				}
				l = append(l, e)
			}
			spec["topologySpreadConstraints"] = l
		}
		if r.IntN(3) == 0 {
			aff := m{}
			if r.IntN(2) == 0 {
				na := m{}
				if r.IntN(2) == 0 {
					var ts []any
					for range r.IntN(3) {
						ts = append(ts, nodeTerm())
					}
					na["requiredDuringSchedulingIgnoredDuringExecution"] = m{"nodeSelectorTerms": ts}
				}
				if r.IntN(2) == 0 {
					na["preferredDuringSchedulingIgnoredDuringExecution"] = []any{m{"weight": pick(r, 0, 1, 101), "preference": nodeTerm()}}
				}
				aff["nodeAffinity"] = na
			}
			for _, k := range []string{"podAffinity", "podAntiAffinity"} {
				if r.IntN(2) == 0 {
					aff[k] = m{"requiredDuringSchedulingIgnoredDuringExecution": []any{podTerm()},
						"preferredDuringSchedulingIgnoredDuringExecution": []any{m{"weight": pick(r, 0, 50), "podAffinityTerm": podTerm()}}}
				}
			}
			spec["affinity"] = aff
		}
		if r.IntN(8) == 0 {
			spec["schedulingGates"] = []any{m{"name": pick(r, "g", "bad g", "")}, m{"name": "g"}}
			spec["nodeName"] = pick(r, "", "n")
		}
		if r.IntN(8) == 0 {
			spec["resourceClaims"] = []any{m{"name": pick(r, "cl", "", "Bad_"), "resourceClaimName": "x"}, m{"name": "cl", "resourceClaimName": "x"}}
		}
		if r.IntN(8) == 0 {
			spec["volumes"] = []any{m{"name": pick(r, "v", "", "V_"), "persistentVolumeClaim": m{"claimName": pick(r, "", "data")}}, m{"name": "v", "emptyDir": m{}}}
		}
		if r.IntN(16) == 0 {
			spec["ephemeralContainers"] = []any{container()}
		}
		meta := m{"name": pick(r, "p", "p", "p", "P_"), "labels": labels()}
		b, _ := json.Marshal(m{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
		pods = append(pods, string(b))
	}
	cmd := exec.Command("/tmp/wlref/ref")
	cmd.Stdin = strings.NewReader(strings.Join(pods, "\n") + "\n")
	raw, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(strings.NewReader(string(raw)))
	sc.Buffer(nil, 1<<26)
	bad, i, refusedN := 0, 0, 0
	for sc.Scan() {
		var out struct {
			Errs []string
			Tols []string
			Err  string
		}
		if err := json.Unmarshal(sc.Bytes(), &out); err != nil {
			t.Fatal(err)
		}
		in := pods[i]
		i++
		res, _ := Read(parse(t, in), Options{})
		if len(res.Pods) != 1 {
			t.Fatalf("%d pods for %s", len(res.Pods), in)
		}
		var got []string
		for _, v := range res.Pods[0].Spec.Refused {
			if v.Code == "invalid" {
				got = append(got, v.Key+"\x00"+v.Detail)
			}
		}
		if out.Err != "" {
			t.Logf("decode: %s", out.Err)
			continue
		}
		if len(out.Errs) > 0 {
			refusedN++
		}
		slices.Sort(got)
		slices.Sort(out.Errs)
		var tols []string
		for _, x := range res.Pods[0].Spec.Tolerations {
			tols = append(tols, fmt.Sprintf("%s|%s|%s|%s", x.Key, x.Operator, x.Value, x.Effect))
		}
		if d := cmp.Diff(out.Errs, got); d != "" {
			bad++
			if bad < 12 {
				t.Errorf("%s\n%s", in, d)
			}
		}
		if d := cmp.Diff(out.Tols, tols); d != "" {
			bad++
			if bad < 12 {
				t.Errorf("tols %s\n%s", in, d)
			}
		}
	}
	t.Logf("%d pods, %d refused, %d differ", i, refusedN, bad)
}
