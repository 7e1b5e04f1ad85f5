package guard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// LabelPrefix starts the labels by which an administrator sets how strict the
// guard is in a namespace. The name after it is a rule's, or "mode" for all
// rules; the value is one of the modes. The label of a rule counts before that
// for all.
//
//	guard.kerf.dev/mode: warn
//	guard.kerf.dev/sys-admin: "off"
//
// Whoever may label a namespace may turn the guard off in it, so that the right
// to do so is to be kept from those who may create pods in it.
const LabelPrefix = "guard.kerf.dev/"

// LabelMode is the label for all rules.
const LabelMode = LabelPrefix + "mode"

// The values of the labels. "deny" is the rule's own severity, the others are
// the most that it can have.
const (
	ModeDeny  = "deny"
	ModeWarn  = "warn"
	ModeAudit = "audit"
	ModeOff   = "off"
)

// modeOf is the severity of a rule in a namespace with these labels; on is false
// when it is turned off. A value that is no mode counts as if it were absent.
func modeOf(labels map[string]string, r *Rule) (severity model.Severity, on bool) {
	if len(labels) == 0 {
		return r.Severity, true
	}
	for _, key := range [...]string{r.label, LabelMode} {
		switch labels[key] {
		case ModeOff:
			return r.Severity, false
		case ModeDeny:
			return r.Severity, true
		case ModeWarn:
			return min(r.Severity, model.Warning), true
		case ModeAudit:
			return model.Info, true
		}
	}
	return r.Severity, true
}

// An Exemption lets the pods of one identity break rules. Identities are a
// namespace and a service account, as users choose labels and names themselves.
type Exemption struct {
	Namespace      string
	ServiceAccount string   // "" = every one of the namespace
	Rules          []string // empty = all
}

// Exemptions are all that apply.
type Exemptions []Exemption

// DefaultExemptions are the namespaces that the software which gives out GPUs
// is installed to by its own charts and manifests.
func DefaultExemptions() Exemptions {
	var out Exemptions
	for _, ns := range []string{"gpu-operator", "kerf-system", "kube-system", "nvidia-device-plugin", "nvidia-dra-driver-gpu", "nvidia-gpu-operator"} {
		out = append(out, Exemption{Namespace: ns})
	}
	return out
}

// ParseExemption reads "namespace", "namespace/serviceaccount", and either with
// ":rule,rule" behind it.
func ParseExemption(text string) (Exemption, error) {
	who, rules, some := strings.Cut(text, ":")
	var e Exemption
	e.Namespace, e.ServiceAccount, _ = strings.Cut(who, "/")
	if e.Namespace == "" || strings.Contains(e.ServiceAccount, "/") {
		return Exemption{}, fmt.Errorf("%q names no namespace; write namespace, namespace/serviceaccount, or either with :rule,rule", text)
	}
	if !some {
		return e, nil
	}
	for name := range strings.SplitSeq(rules, ",") {
		if _, ok := Named(name); !ok {
			return Exemption{}, fmt.Errorf("%q names no rule %q", text, name)
		}
		e.Rules = append(e.Rules, name)
	}
	return e, nil
}

// String writes the exemption as ParseExemption reads it.
func (e Exemption) String() string {
	out := e.Namespace
	if e.ServiceAccount != "" {
		out += "/" + e.ServiceAccount
	}
	if len(e.Rules) > 0 {
		out += ":" + strings.Join(e.Rules, ",")
	}
	return out
}

// Exempt reports whether an identity may break every rule.
func (ex Exemptions) Exempt(namespace, serviceAccount string) bool {
	return slices.ContainsFunc(ex, func(e Exemption) bool { return len(e.Rules) == 0 && e.names(namespace, serviceAccount) })
}

func (e *Exemption) names(namespace, serviceAccount string) bool {
	return e.Namespace == namespace && (e.ServiceAccount == "" || e.ServiceAccount == serviceAccount)
}

// of returns the exemptions of one identity.
func (ex Exemptions) of(namespace, serviceAccount string) Exemptions {
	var out Exemptions
	for i := range ex {
		if ex[i].names(namespace, serviceAccount) {
			out = append(out, ex[i])
		}
	}
	return out
}

// covers reports whether exemptions of one identity let it break a rule.
func (ex Exemptions) covers(rule string) bool {
	for i := range ex {
		if len(ex[i].Rules) == 0 || slices.Contains(ex[i].Rules, rule) {
			return true
		}
	}
	return false
}
