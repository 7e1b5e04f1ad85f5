// Package admission keeps GPUs counted at the API server's door: webhooks that
// apply the rules of package guard, by package review, to what is about to be
// stored.
//
// Two webhooks are asked. The mutating one repairs pods at their creation: it
// adds the toleration that the ExtendedResourceToleration admission plugin would
// add (where the API server does not run it, which a dry run finds out), the
// tolerations for a NodePool's own taints when a pod with GPUs selects that
// pool, and NVIDIA_VISIBLE_DEVICES=void for containers that ask for no GPU. The
// validating one judges pods, debug containers and resizes, warns of workloads
// whose pods it would refuse, and judges quotas, limit ranges and resource claims.
//
// Namespaces that are exempt as a whole are never matched; the guard's own is one of them, so
// that it can start again when nothing of it runs.
//
// The serving certificate is made here and renewed before it ends; a new
// authority is published before anything is signed with it, so that no review
// fails while they change.
package admission
