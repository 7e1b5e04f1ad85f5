package guard

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kerfdev/kerf/internal/admission"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/policy"
)

// The webhook finds in every claim of the corpus what a scan finds, refuses what
// breaks a rule of severity error and lets everything else in. Where it cannot
// see as much, or the API server is faster, the claim's head says so.
func TestTheWebhookAgreesWithTheScan(t *testing.T) {
	u, claims := newUser(t), corpus(t)
	settle(t, u, claims)
	var now atomic.Pointer[claim]
	s := guarded(t, u, func(c *admission.Config) {
		c.Exemptions = exemptions(claims)
		c.Devices = func() (map[string]int64, map[string]bool) {
			if c := now.Load(); c != nil {
				return c.inventory.MaxRequest, c.inventory.Offered
			}
			return nil, nil
		}
	})
	// What is repaired breaks rules no more.
	err := u.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(t.Context(), admission.Name, metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	u.unrepaired(t)
	for i := range claims {
		c := &claims[i]
		now.Store(c)
		t.Run(c.name, func(t *testing.T) {
			before := s.findings(t)
			refused := u.submitAll(t, c)
			var got []string
			for key, n := range s.findings(t) {
				if n > before[key] {
					got = append(got, key[0])
				}
			}
			slices.Sort(got)
			got = slices.Compact(got)
			want, differs := c.rules("webhook")
			if !differs {
				want, _ = c.rules("want")
				want = slices.DeleteFunc(want, func(name string) bool {
					r, _ := guard.Named(name)
					return r.Sees == guard.ByScan && r.Name != "static-pod" // which it sees, but cannot refuse
				})
			}
			if d := cmp.Diff(want, got); d != "" && len(want)+len(got) > 0 && c.head["server"] == "" {
				t.Errorf("rules (-want +got):\n%s", d)
			}
			if expected := len(refusable(c, exemptions(claims))) > 0; refused != expected && !differs && c.head["server"] == "" {
				t.Errorf("refused is %v, want %v", refused, expected)
			}
		})
	}
}

// refusable lists the rules that a scan finds for which a pod or an object is
// to be refused. The kubelet's picture of a static pod never is.
func refusable(c *claim, ex guard.Exemptions) []string {
	if slices.ContainsFunc(c.inventory.Pods, func(p guard.Pod) bool { return p.Static }) {
		return nil
	}
	var out []string
	for _, f := range guard.Refused(guard.Scan(c.inventory, ex).Findings) {
		switch kind, _, _ := strings.Cut(f.Place.Object, " "); kind {
		case "Pod", "ResourceQuota", "LimitRange", "ResourceClaim", "ResourceClaimTemplate":
			out = append(out, f.Rule)
		}
	}
	return out
}

// submitAll submits the objects of a claim and reports whether the guard refused
// one; what else the API server answers must be what the claim's head says.
func (u *user) submitAll(t *testing.T, c *claim) (refused bool) {
	t.Helper()
	for _, d := range c.docs {
		if plurals[d.Kind] == "" {
			continue
		}
		u.warned()
		err := u.submit(t, d)
		server := ""
		switch {
		case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "denied the request"):
			refused = true
			for _, part := range []string{d.Name, "→", "kerf guard rules"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the refusal does not say %q: %v", part, err)
				}
			}
		case apierrors.IsNotFound(err):
			server = "unserved"
		case err != nil:
			server = "refused"
		}
		if server != c.head["server"] {
			t.Errorf("the API server's own answer is %q, want %q: %s", server, c.head["server"], describe(d, err, u.warned()))
		}
	}
	return refused
}

// unrepaired waits until the API server mutates nothing any more.
func (u *user) unrepaired(t *testing.T) {
	t.Helper()
	eventually(t, "the API server repairs nothing", func() error {
		p, err := u.try(context.Background(), "probe", honest("p"))
		if err == nil && len(p.Spec.Containers[0].Env) != 1 {
			err = errRepaired
		}
		return err
	})
}

// findings counts what the guard has found, by rule and severity.
func (s *sentry) findings(t *testing.T) map[[2]string]float64 {
	t.Helper()
	families, err := s.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[[2]string]float64{}
	for _, f := range families {
		if f.GetName() != "kerf_guard_findings_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := prometheus.Labels{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			out[[2]string{labels["rule"], labels["severity"]}] = m.GetCounter().GetValue()
		}
	}
	return out
}

// The policies that kerf guard policies writes refuse and warn of the same on a
// real API server as a scan finds, with the differences that claims name.
func TestThePoliciesAgreeWithTheScan(t *testing.T) {
	u, claims := newUser(t), corpus(t)
	settle(t, u, claims)
	ex := exemptions(claims)
	u.apply(t, policy.YAML(policy.Policies(policy.Options{Exemptions: ex})))
	u.refuses(t, "env-visible-devices")
	u.enforces(t)
	for i := range claims {
		c := &claims[i]
		if c.head["server"] != "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			deny, warn := expected(c, ex)
			var denied, warned []string
			for _, d := range c.docs {
				if plurals[d.Kind] == "" {
					continue
				}
				u.warned()
				if err := u.submit(t, d); err != nil {
					if !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'kerf-guard-") {
						t.Fatal(err)
					}
					denied = append(denied, named(err.Error())...)
				}
				warned = append(warned, named(u.warned()...)...)
			}
			slices.Sort(warned)
			if (len(denied) > 0) != (len(deny) > 0) || slices.ContainsFunc(denied, func(r string) bool { return !slices.Contains(deny, r) }) {
				t.Errorf("refused for %q, want some of %q", denied, deny)
			}
			if d := cmp.Diff(warn, slices.Compact(warned)); d != "" && len(warn)+len(warned) > 0 {
				t.Errorf("warned of (-want +got):\n%s", d)
			}
		})
	}
}

// expected are the rules that policies refuse for and warn of.
func expected(c *claim, ex guard.Exemptions) (deny, warn []string) {
	template := slices.ContainsFunc(c.inventory.Pods, func(p guard.Pod) bool { return p.Kind != "Pod" })
	add := func(rule, severity string) {
		switch {
		case severity == "error" && !template:
			deny = append(deny, rule)
		case severity == "error" || severity == "warning":
			warn = append(warn, rule)
		}
	}
	if list, differs := c.rules("policy"); differs {
		for _, name := range list {
			r, _ := guard.Named(name)
			add(name, r.Severity.String())
		}
		return deny, warn
	}
	for _, f := range guard.Scan(c.inventory, ex).Findings {
		if r, _ := guard.Named(f.Rule); r.Sees == guard.ByPolicy {
			add(f.Rule, f.Severity.String())
		}
	}
	slices.Sort(warn)
	return deny, slices.Compact(warn)
}
