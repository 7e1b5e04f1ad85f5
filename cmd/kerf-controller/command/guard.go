package command

import (
	"os"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kerfdev/kerf/internal/admission"
	"github.com/kerfdev/kerf/internal/guard"
)

// guardFlags say whether and how the guard's webhooks are served.
type guardFlags struct {
	on        bool
	closed    bool
	exempt    []string
	url       string
	service   string
	namespace string
}

func (g *guardFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&g.on, "guard", false, "serve webhooks that refuse pods which get at GPUs past the device plugin")
	f.BoolVar(&g.closed, "guard-fail-closed", false, "refuse pods while no replica answers (default: let them in, for the next kerf guard scan to find)")
	f.StringArrayVar(&g.exempt, "guard-exempt", nil, "`IDENTITY` that may break rules, beside the default ones: namespace or namespace/serviceaccount, and :rule,rule for some only; may be repeated")
	f.StringVar(&g.namespace, "guard-namespace", "", "`NAMESPACE` of the certificate and the Service (default: that of this pod, else kerf-system)")
	f.StringVar(&g.service, "guard-service", "kerf-controller", "`NAME` of the Service in it that leads to port 9443")
	f.StringVar(&g.url, "guard-url", "", "`URL` by which the API server reaches the guard, where no Service does: https://host:port")
}

// podNamespace is where a pod finds its namespace.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// config is nil where the guard is off.
func (g *guardFlags) config() (*admission.Config, error) {
	if !g.on {
		return nil, nil
	}
	out := &admission.Config{
		Namespace: g.namespace, Service: g.service, URL: g.url, Closed: g.closed, Exemptions: guard.DefaultExemptions(), Metrics: metrics.Registry,
	}
	if out.Namespace == "" {
		out.Namespace = "kerf-system"
		if text, err := os.ReadFile(podNamespace); err == nil {
			out.Namespace = strings.TrimSpace(string(text))
		}
	}
	for _, text := range g.exempt {
		e, err := guard.ParseExemption(text)
		if err != nil {
			return nil, &usageError{"--guard-exempt: " + err.Error(), "kerf guard rules lists the rules"}
		}
		out.Exemptions = append(out.Exemptions, e)
	}
	if g.url != "" && !strings.HasPrefix(g.url, "https://") {
		return nil, &usageError{"--guard-url " + g.url + " is no https://host:port", "name the address at which the API server reaches this process"}
	}
	return out, nil
}
