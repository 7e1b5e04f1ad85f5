package hands

import (
	"context"
	"sync/atomic"

	"github.com/awslabs/operatorpkg/controller"
	"github.com/awslabs/operatorpkg/object"
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/dynamicresources/deviceallocation"
	metricsnode "sigs.k8s.io/karpenter/pkg/controllers/metrics/node"
	metricsnodepool "sigs.k8s.io/karpenter/pkg/controllers/metrics/nodepool"
	metricspod "sigs.k8s.io/karpenter/pkg/controllers/metrics/pod"
	nodehydration "sigs.k8s.io/karpenter/pkg/controllers/node/hydration"
	"sigs.k8s.io/karpenter/pkg/controllers/node/termination"
	"sigs.k8s.io/karpenter/pkg/controllers/node/termination/terminator"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/consistency"
	nodeclaimdisruption "sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/expiration"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/garbagecollection"
	nodeclaimhydration "sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/hydration"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/lifecycle"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/podevents"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/reboot"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/nodepool/counter"
	"sigs.k8s.io/karpenter/pkg/controllers/nodepool/hash"
	"sigs.k8s.io/karpenter/pkg/controllers/nodepool/readiness"
	"sigs.k8s.io/karpenter/pkg/controllers/nodepool/registrationhealth"
	"sigs.k8s.io/karpenter/pkg/controllers/nodepool/validation"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/controllers/state/informer"
	"sigs.k8s.io/karpenter/pkg/controllers/state/nodeclaimgc"
	staticdeprovisioning "sigs.k8s.io/karpenter/pkg/controllers/static/deprovisioning"
	staticprovisioning "sigs.k8s.io/karpenter/pkg/controllers/static/provisioning"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/state/cost"
	"sigs.k8s.io/karpenter/pkg/state/nodepoolhealth"
	"sigs.k8s.io/karpenter/pkg/state/virtualpods"
)

// A library assembles Karpenter's controllers, as its controllers.NewControllers
// does, less those that provision: the provisioner itself and what triggers it
// for pods and nodes. Capacity buffers, DRA and the management of pod deletion
// costs, alpha in v1.15.0 and off by default, are left out too.
type library struct {
	Config
	manager  manager.Manager
	client   client.Client
	provider cloudprovider.CloudProvider
	plain    cloudprovider.CloudProvider // without NodeOverlays
	overlays *nodeoverlay.InstanceTypeStore
	cluster  *state.Cluster
}

func (l *library) controllers(ctx context.Context) []controller.Controller {
	eviction := terminator.NewQueue(l.Clock, l.client, l.Recorder)
	drain := terminator.NewTerminator(l.Clock, l.client, eviction, l.Recorder)
	spending := cost.NewClusterCost(ctx, l.provider, l.client)
	out := []controller.Controller{
		eviction,
		termination.NewController(l.Clock, l.client, l.provider, drain, l.Recorder),
		nodehydration.NewController(l.client, l.provider),
		reboot.NewController(l.Clock, l.client, l.provider, drain, l.Recorder),
	}
	out = append(out, l.informers(spending)...)
	out = append(out, l.claims()...)
	out = append(out, l.disruption(ctx, spending)...)
	if l.Settings.NodeOverlays {
		out = append(out, nodeoverlay.NewController(l.Clock, l.client, l.plain, l.overlays, l.cluster))
	}
	if !l.Settings.Quiet && gauged.CompareAndSwap(false, true) {
		out = append(out, l.gauges(spending)...)
	}
	return out
}

// informers keep the library's view of the cluster.
func (l *library) informers(spending *cost.ClusterCost) []controller.Controller {
	return []controller.Controller{
		informer.NewDaemonSetController(l.client, l.cluster),
		informer.NewNodeController(l.client, l.cluster),
		informer.NewPodController(l.client, l.cluster),
		informer.NewNodePoolController(l.client, l.provider, l.cluster, spending),
		informer.NewNodeClaimController(l.client, l.provider, l.cluster, spending),
		informer.NewPricingController(l.client, l.provider, spending),
		nodeclaimgc.NewController(l.client, l.cluster),
	}
}

// claims look after NodeClaims from creation to deletion, and after NodePools.
func (l *library) claims() []controller.Controller {
	registrations := nodepoolhealth.NewState()
	return []controller.Controller{
		lifecycle.NewController(l.Clock, l.client, l.provider, l.Recorder, l.cluster, registrations, l.Hooks),
		garbagecollection.NewController(l.Clock, l.client, l.provider),
		expiration.NewController(l.Clock, l.client, l.provider),
		consistency.NewController(l.Clock, l.client, l.provider, l.Recorder),
		nodeclaimdisruption.NewController(l.Clock, l.client, l.provider),
		nodeclaimhydration.NewController(l.client, l.provider),
		podevents.NewController(l.Clock, l.client, l.provider),
		hash.NewController(l.client, l.provider),
		readiness.NewController(l.Clock, l.client, l.provider),
		registrationhealth.NewController(l.Clock, l.client, l.provider, registrations),
		counter.NewController(l.client, l.provider, l.cluster),
		validation.NewController(l.Clock, l.client, l.provider),
	}
}

// disruption replaces and removes nodes. The provisioner in it is not
// registered: it simulates, and creates the replacements of commands.
func (l *library) disruption(ctx context.Context, spending *cost.ClusterCost) []controller.Controller {
	devices, buffers := deviceallocation.NewController(l.client), virtualpods.NewVirtualPodCache(l.client)
	simulator := provisioning.NewProvisioner(l.client, aboutNodes{l.Recorder}, l.provider, l.cluster, l.Clock, devices, buffers)
	queue := disruption.NewQueue(l.client, l.Recorder, l.cluster, l.Clock, simulator)
	methods := disruption.NewMethods(ctx, l.Clock, l.cluster, l.client, simulator, l.provider, l.Recorder, queue)
	out := []controller.Controller{
		queue,
		paced{disruption.NewController(ctx, l.Clock, l.client, simulator, l.provider, l.Recorder, l.cluster, queue, spending,
			disruption.WithMethods(priceAll(methods, l.provider, l.Recorder)...))},
	}
	if l.Settings.StaticPools {
		out = append(out,
			staticprovisioning.NewController(l.client, l.cluster, l.Recorder, l.provider, simulator, l.Clock, devices, buffers),
			staticdeprovisioning.NewController(l.client, l.cluster, l.provider, l.Clock, l.Recorder))
	}
	return out
}

// gauged is whether the gauges exist. The library registers them in a variable
// of a package and panics at the second time, so a process that starts another
// manager, as tests do, has them for the first one only.
var gauged atomic.Bool

// gauges are the library's metrics and the events on changed conditions.
func (l *library) gauges(spending *cost.ClusterCost) []controller.Controller {
	var classes []string
	for _, o := range l.provider.GetSupportedNodeClasses() {
		classes = append(classes, karpenter.NodeClassLabelKey(object.GVK(o).GroupKind()))
	}
	claimLabels := append(append([]string{}, classes...), karpenter.NodePoolLabelKey)
	nodeLabels := append(append([]string{}, claimLabels...), karpenter.NodeInitializedLabelKey)
	r := l.recorder()
	return []controller.Controller{
		metricspod.NewController(l.client, l.cluster),
		metricsnodepool.NewController(l.client, l.provider, spending),
		metricsnode.NewController(l.cluster),
		status.NewController[*karpenter.NodeClaim](l.client, r, status.EmitDeprecatedMetrics, status.WithLabels(claimLabels...)),
		status.NewController[*karpenter.NodePool](l.client, r, status.EmitDeprecatedMetrics),
		status.NewGenericObjectController[*corev1.Node](l.client, r, status.WithLabels(nodeLabels...)),
	}
}

func (l *library) recorder() record.EventRecorder {
	//lint:ignore SA1019 operatorpkg's controllers ask for it
	return l.manager.GetEventRecorderFor("kerf")
}

// aboutNodes keeps what a simulation says of pods to itself: the brain tells
// pods why they wait.
type aboutNodes struct{ events.Recorder }

// Publish passes on events that are not on pods.
func (a aboutNodes) Publish(all ...events.Event) {
	for _, e := range all {
		if _, pod := e.InvolvedObject.(*corev1.Pod); !pod {
			a.Recorder.Publish(e)
		}
	}
}
