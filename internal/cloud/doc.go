// Package cloud holds Karpenter CloudProviders: a simulated cloud that sells
// what a catalogue lists, and a decorator that makes any provider count GPUs as
// the nodes will advertise them.
//
// # The simulated cloud
//
//	configs := cloud.NewClusterConfigs(mgr.GetAPIReader())
//	sim, err := cloud.NewSimulated(cloud.Config{Client: mgr.GetClient(), Book: book, Configs: configs})
//	err = configs.Register(mgr) // follow the ConfigMaps
//	err = sim.Register(mgr)     // run the machines
//	provider := cloud.Sharing(sim, configs, book)
//
// [Simulated] is a cloudprovider.CloudProvider of Karpenter v1.15: Create takes
// the cheapest offering in stock that the NodeClaim allows and remembers the
// instance. Its answers and errors are those of the AWS provider v1.15. Of a
// NodeClaim it launches one instance however often it is asked: the instance's
// id follows from the claim's UID, as a client token's would.
//
// The instances live in the Simulated. It may outlive the controllers that use
// it, as a cloud does; a new one in a new process rebuilds them from the
// NodeClaims and Nodes that carry its provider ids ("sim:///zone/i-...").
//
// Register adds the machines to a manager. A cloud that is to outlive its
// controllers has a manager of its own. A machine becomes a Node after Delays.Register, is Ready after
// Delays.Ready more, renews its Lease, runs the pods bound to it, and after
// Delays.GPU advertises its GPUs through gpu.ForNode under the device config
// that the node's labels select. Where a DaemonSet of the NVIDIA device plugin
// (or kerf-node) exists, GPUs wait for its pod to run on the node; where none
// does, the machine image is taken to bring its own.
//
// Pods become Running after Delays.Pod. A pod ends when its annotation
// kerf.dev/run-for ("30s", "forever") or the "sleep N" in its commands says;
// without either it ends after Delays.Run, unless its restartPolicy is Always:
// such a pod runs until it is deleted. A deleted pod ends with its grace period.
//
// Node classes: EC2NodeClass and KWOKNodeClass, as far as their CRDs are
// installed. A class whose conditions nobody sets is made ready, as a
// provider's own controller would; one that says Ready=False stays so.
//
// # Faults
//
// [Simulated.Faults] breaks things on demand: stock, launches, registration,
// GPUs, interruption, death. Random faults follow from Config.Seed and the
// number of the launch, so that the same sequence of launches fails alike.
//
// # The decorator
//
// [Sharing] wraps a provider: instance types, and the NodeClaims that Create
// returns, have the resources that gpu.ForNode predicts under the device config
// that the pool's or the claim's labels select: replicas, renamed resources,
// MIG slices, fractions of GPUs. Requests are translated on the way to the
// wrapped provider, which knows physical GPUs only. [Shared.Predict] says what
// a NodeClaim's node will advertise.
package cloud
