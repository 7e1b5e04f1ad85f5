package admission

import (
	"context"
	"fmt"

	admissionregv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/policy"
)

// Name is that of both webhook configurations.
const Name = "kerf-guard"

// The paths that reviews are posted to.
const (
	validatePath = "/guard/validate"
	mutatePath   = "/guard/mutate"
)

// changes are updates that can break a rule: others, as of labels, finalizers
// and states, never reach the guard, so that none waits for it.
const changes = "request.operation != 'UPDATE' || object.?spec.orValue(null) != oldObject.?spec.orValue(null) || " +
	"object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({})"

// hooks writes the webhook configurations.
type hooks struct {
	client     client.Client
	exemptions guard.Exemptions
	closed     bool   // refuse what could not be judged
	url        string // "" = by service
	service    client.ObjectKey
}

// publish creates the configurations or brings them up to date.
func (h *hooks) publish(ctx context.Context, bundle []byte) error {
	validating := &admissionregv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, h.client, validating, func() error {
		validating.Webhooks = h.validating(bundle)
		return nil
	}); err != nil {
		return fmt.Errorf("write ValidatingWebhookConfiguration %s: %w", Name, err)
	}
	mutating := &admissionregv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, h.client, mutating, func() error {
		mutating.Webhooks = h.mutating(bundle)
		return nil
	}); err != nil {
		return fmt.Errorf("write MutatingWebhookConfiguration %s: %w", Name, err)
	}
	return nil
}

func (h *hooks) validating(bundle []byte) []admissionregv1.ValidatingWebhook {
	hook := func(name string, rules []admissionregv1.RuleWithOperations, policy admissionregv1.FailurePolicyType) admissionregv1.ValidatingWebhook {
		match, side, seconds := admissionregv1.Equivalent, admissionregv1.SideEffectClassNone, int32(5)
		return admissionregv1.ValidatingWebhook{
			Name: name, ClientConfig: h.where(validatePath, bundle), Rules: rules, FailurePolicy: &policy, MatchPolicy: &match,
			NamespaceSelector: h.selector(), ObjectSelector: &metav1.LabelSelector{}, SideEffects: &side, TimeoutSeconds: &seconds,
			AdmissionReviewVersions: []string{"v1"}, MatchConditions: []admissionregv1.MatchCondition{{Name: "changes", Expression: changes}},
		}
	}
	return []admissionregv1.ValidatingWebhook{
		hook("pods.guard.kerf.dev", podRules(), h.failure()),
		hook("templates.guard.kerf.dev", templateRules(), admissionregv1.Ignore),
		hook("objects.guard.kerf.dev", objectRules(), h.failure()),
	}
}

func (h *hooks) mutating(bundle []byte) []admissionregv1.MutatingWebhook {
	match, side, seconds := admissionregv1.Equivalent, admissionregv1.SideEffectClassNone, int32(5)
	again, failure := admissionregv1.IfNeededReinvocationPolicy, h.failure()
	return []admissionregv1.MutatingWebhook{{
		Name: "repair.guard.kerf.dev", ClientConfig: h.where(mutatePath, bundle), FailurePolicy: &failure, MatchPolicy: &match,
		Rules: []admissionregv1.RuleWithOperations{
			rule("", "v1", []string{"pods"}, admissionregv1.Create),
			rule("", "v1", []string{"pods/ephemeralcontainers"}, admissionregv1.Update),
		},
		NamespaceSelector: h.selector(), ObjectSelector: &metav1.LabelSelector{}, SideEffects: &side, TimeoutSeconds: &seconds,
		AdmissionReviewVersions: []string{"v1"}, ReinvocationPolicy: &again,
	}}
}

// failure is what becomes of reviews that nobody answers.
func (h *hooks) failure() admissionregv1.FailurePolicyType {
	if h.closed {
		return admissionregv1.Fail
	}
	return admissionregv1.Ignore
}

// where says where the API server finds the guard.
func (h *hooks) where(path string, bundle []byte) admissionregv1.WebhookClientConfig {
	if h.url != "" {
		url := h.url + path
		return admissionregv1.WebhookClientConfig{URL: &url, CABundle: bundle}
	}
	port := int32(443)
	return admissionregv1.WebhookClientConfig{
		Service:  &admissionregv1.ServiceReference{Namespace: h.service.Namespace, Name: h.service.Name, Path: &path, Port: &port},
		CABundle: bundle,
	}
}

// selector leaves out the namespaces that are exempt as a whole, by the label
// that the API server itself puts on namespaces.
func (h *hooks) selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: policy.Namespaces(h.exemptions),
	}}}
}

func rule(group, version string, resources []string, operations ...admissionregv1.OperationType) admissionregv1.RuleWithOperations {
	scope := admissionregv1.NamespacedScope
	return admissionregv1.RuleWithOperations{
		Operations: operations,
		Rule:       admissionregv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources, Scope: &scope},
	}
}

func podRules() []admissionregv1.RuleWithOperations {
	return []admissionregv1.RuleWithOperations{
		rule("", "v1", []string{"pods"}, admissionregv1.Create, admissionregv1.Update),
		rule("", "v1", []string{"pods/ephemeralcontainers", "pods/resize"}, admissionregv1.Update),
	}
}

func templateRules() []admissionregv1.RuleWithOperations {
	both := []admissionregv1.OperationType{admissionregv1.Create, admissionregv1.Update}
	return []admissionregv1.RuleWithOperations{
		rule("apps", "v1", []string{"daemonsets", "deployments", "replicasets", "statefulsets"}, both...),
		rule("batch", "v1", []string{"cronjobs", "jobs"}, both...),
	}
}

func objectRules() []admissionregv1.RuleWithOperations {
	return []admissionregv1.RuleWithOperations{
		rule("", "v1", []string{"limitranges", "resourcequotas"}, admissionregv1.Create, admissionregv1.Update),
		rule("resource.k8s.io", "*", []string{"resourceclaims", "resourceclaimtemplates"}, admissionregv1.Create),
	}
}
