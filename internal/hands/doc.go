// Package hands is everything about nodes that Kerf does not decide: Karpenter
// v1.15.0's own controllers, assembled over a manager, and beside them what
// Karpenter lacks for GPUs.
//
//	settings := hands.Settings{NodeRepair: true}
//	mgr, err := manager.New(config, manager.Options{BaseContext: settings.BaseContext(logger)})
//	h, err := hands.Register(ctx, mgr, hands.Config{Cloud: shared, Configs: configs, Settings: settings})
//
// The library launches, registers and initializes the NodeClaims that others
// create, drains and terminates nodes, keeps NodePools' hashes, counters and
// conditions, and disrupts: repair, emptiness, drift and consolidation. Its
// provisioner is never registered: it serves disruption as a simulator, and
// creates the replacements that disruption wants.
//
// # What is ours
//
// GPUs that never come up: a node whose NodeClaim asks for GPU resources that
// the node does not advertise gets the condition GPUsAsPredicted=False with
// the cause as its reason, an event with the cause in words, and at the
// deadline (10 minutes after it registered, or what TimeoutAnnotation says on
// the pods that wait for it, or on the NodeClaim by way of its pool's template)
// it is deleted. The brain asks [Avoid] what not to buy for a while: the type in
// that pool, or the whole pool where every node of it would fail alike. Without
// a DaemonSet of a plugin that is taken to be so, unless another node of the
// same node class has GPUs: then the machine image brings the plugin.
//
// GPUs that differ from the prediction: the same condition is False with the
// reason FewerGPUs or MoreGPUs, and [MismatchAnnotation] says by how many. A
// NodeClaim's schema (Karpenter v1.15) allows conditions of any type, so the
// condition is stored as it is.
//
// GPUs that died before the node was initialized: they are taken off the
// NodeClaim's status, by which the library, and whoever else reads it, counts
// nodes that are not initialized; so a ghost holds no pod back. Where the
// device config changes, the status follows the new prediction.
//
// Taints that a pool does not declare, on a fresh node: [Hands.Held] names
// them, so that the brain goes on counting the node for the pods that it bought
// it for, and an event says what to declare. They are held for as long as GPUs
// have to come up, not for ever.
//
// Replacements: every disruption method is wrapped, and a command whose
// replacements would cost more than the nodes that they replace, at the prices
// of the sharing-aware types, is cut down to types that do not, or dropped; see
// priced.go.
package hands
