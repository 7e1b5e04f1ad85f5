// Package policy writes the rules of package guard as policies that the API
// server evaluates by itself: ValidatingAdmissionPolicies, for Kubernetes 1.30
// and later, and a MutatingAdmissionPolicy, for 1.36 and later. Nothing has to
// run for them, and nothing can be down.
//
// A policy sees the object, its namespace's labels and the request, so that it
// judges as guard.Review does without facts. What only a webhook or a scan can
// see is listed by Unseen. Where the two differ on what both see, the policy is
// the stricter one: it cannot put $(NAME) together, and refuses every value of
// NVIDIA_VISIBLE_DEVICES that has it.
//
// There are five policies, because a binding denies, warns or records all of a
// policy: pods by what is done about them, templates of pods, which are only
// warned of, and objects that count GPUs. Labels of a namespace move a rule from
// one to another, as guard.LabelPrefix says; exempt namespaces are never
// matched, so that a cluster can be restored while everything else is down.
package policy
