package admission

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/review"
)

// Config says how the guard runs. Zero fields have the defaults that are named.
type Config struct {
	// Namespace is the guard's own. It is always exempt, so that the guard's pods
	// start when no guard runs. Required.
	Namespace string
	// Service is the name of the Service in Namespace that leads to Port; default
	// "kerf-controller". URL is used instead where the API server reaches the
	// guard otherwise: "https://127.0.0.1:9443", whose port is then that of Port
	// unless that is given.
	Service string
	URL     string
	// Host and Port are what the webhooks listen on; default all addresses, 9443.
	Host string
	Port int
	// Exemptions are who may break which rules; nil = guard.DefaultExemptions.
	Exemptions guard.Exemptions
	// Closed refuses objects while no guard answers. By default they are let in,
	// for the next scan to find.
	Closed bool
	// Devices is as in APIServer.
	Devices func() (mostOf map[string]int64, offered map[string]bool)
	// Metrics is where counters are registered; nil = nowhere.
	Metrics prometheus.Registerer
	// Settle is how long a new authority is published before it signs, default
	// ten minutes; Every is how often certificates are looked at, default one minute.
	Settle, Every time.Duration
	Clock         clock.Clock // nil = the machine's
}

var errNoNamespace = errors.New("admission: Config.Namespace is required: the guard must know which pods are its own")

func (c *Config) complete() error {
	if c.Namespace == "" {
		return errNoNamespace
	}
	if c.URL != "" {
		u, err := url.Parse(c.URL)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" {
			return fmt.Errorf("admission: Config.URL is %q; expected https://host:port", c.URL)
		}
		if port, err := strconv.Atoi(u.Port()); err == nil {
			c.Port = cmp.Or(c.Port, port)
		}
	}
	if c.Exemptions == nil {
		c.Exemptions = guard.DefaultExemptions()
	}
	if !c.Exemptions.Exempt(c.Namespace, "") {
		c.Exemptions = append(slices.Clone(c.Exemptions), guard.Exemption{Namespace: c.Namespace})
	}
	c.Service = cmp.Or(c.Service, "kerf-controller")
	c.Port = cmp.Or(c.Port, webhook.DefaultPort)
	c.Settle, c.Every = cmp.Or(c.Settle, 10*time.Minute), cmp.Or(c.Every, time.Minute)
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return nil
}

// hosts are what the API server calls the guard.
func (c *Config) hosts() []string {
	if u, err := url.Parse(c.URL); err == nil && u.Hostname() != "" {
		return []string{u.Hostname()}
	}
	return []string{c.Service + "." + c.Namespace + ".svc", c.Service + "." + c.Namespace + ".svc.cluster.local"}
}

// Register adds the guard to a manager: the webhook server, its certificate and
// configurations, and a readiness check. It serves on every replica.
func Register(mgr manager.Manager, c Config) error {
	if err := c.complete(); err != nil {
		return err
	}
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	cluster := &APIServer{Cached: mgr.GetClient(), Direct: direct, Namespace: c.Namespace, Devices: c.Devices}
	h := &hooks{client: direct, exemptions: c.Exemptions, closed: c.Closed, url: c.URL, service: client.ObjectKey{Namespace: c.Namespace, Name: c.Service}}
	k := &keeper{
		client: direct, clock: c.Clock, secret: client.ObjectKey{Namespace: c.Namespace, Name: "kerf-guard-tls"}, hosts: c.hosts(),
		settle: c.Settle, every: c.Every, published: func(ctx context.Context, bundle []byte) error { return h.publish(ctx, bundle) },
	}
	server := webhook.NewServer(webhook.Options{Host: c.Host, Port: c.Port, TLSOpts: []func(*tls.Config){func(t *tls.Config) {
		t.GetCertificate, t.MinVersion = k.certificate, tls.VersionTLS12
	}}})
	g := &review.Guard{Cluster: cluster, Exemptions: c.Exemptions, Count: counter(c.Metrics)}
	server.Register(validatePath, Validating(g))
	server.Register(mutatePath, Mutating(g))
	for _, r := range []manager.Runnable{cluster, k, server} {
		if err := mgr.Add(r); err != nil {
			return fmt.Errorf("guard: %w", err)
		}
	}
	if err := mgr.AddReadyzCheck("guard", k.ready); err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	return nil
}

// counter counts verdicts and findings. Guards of one process, one after the
// other, share their counters.
func counter(to prometheus.Registerer) func(string, []guard.Finding) {
	if to == nil {
		return nil
	}
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		var before prometheus.AlreadyRegisteredError
		if err := to.Register(v); errors.As(err, &before) {
			if old, ok := before.ExistingCollector.(*prometheus.CounterVec); ok {
				return old
			}
		}
		return v
	}
	verdicts := vector("kerf_guard_reviews_total", "Admission reviews by verdict: allowed, repaired, denied, failed.", "verdict")
	findings := vector("kerf_guard_findings_total", "Findings of admission reviews by rule and severity.", "rule", "severity")
	return func(verdict string, found []guard.Finding) {
		verdicts.WithLabelValues(verdict).Inc()
		for _, f := range found {
			findings.WithLabelValues(f.Rule, f.Severity.String()).Inc()
		}
	}
}
