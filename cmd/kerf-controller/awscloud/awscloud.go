// Package awscloud runs kerf-controller on AWS: the whole of Karpenter's AWS
// provider (v1.15.0), its launch templates, AMI discovery and drift, subnets,
// prices, interruption queue and repair, with Kerf's brain in place of
// Karpenter's provisioner.
package awscloud

import (
	"context"
	"flag"
	"fmt"
	"os"

	awsprovider "github.com/aws/karpenter-provider-aws/pkg/cloudprovider"
	"github.com/aws/karpenter-provider-aws/pkg/cloudprovider/registrationhooks"
	"github.com/aws/karpenter-provider-aws/pkg/controllers"
	"github.com/aws/karpenter-provider-aws/pkg/operator"
	"github.com/aws/karpenter-provider-aws/pkg/operator/options"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/events"
	coreoperator "sigs.k8s.io/karpenter/pkg/operator"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/state/prediction"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/controller"
)

// Flags are the AWS provider's own, with its environment variables and defaults.
type Flags struct{ options options.Options }

// Add adds the flags: cluster-name, interruption-queue and so on.
func (f *Flags) Add(to *flag.FlagSet) { f.options.AddFlags(&coreoptions.FlagSet{FlagSet: to}) }

// Check says which flag is missing or cannot be.
func (f *Flags) Check() error {
	empty := &coreoptions.FlagSet{FlagSet: flag.NewFlagSet("aws", flag.ContinueOnError)}
	if err := f.options.Parse(empty); err != nil {
		return fmt.Errorf("flags of the AWS provider: %w", err)
	}
	return nil
}

// Setup has a controller run on AWS, with the credentials that the AWS SDK
// finds.
func Setup(c *controller.Config, f Flags) {
	c.Context = func(ctx context.Context) context.Context { return options.ToContext(ctx, &f.options) }
	region := c.Region
	c.Cloud = func(ctx context.Context, m manager.Manager, _ cloud.Configs) (provider cloudprovider.CloudProvider, err error) {
		if region != "" {
			if err := os.Setenv("AWS_REGION", region); err != nil {
				return nil, fmt.Errorf("set the region: %w", err)
			}
		}
		defer func() {
			if broken := recover(); broken != nil { // the provider's way of refusing to begin
				err = fmt.Errorf("the AWS provider cannot begin: %v", broken)
			}
		}()
		return register(ctx, m, c)
	}
}

// register does what the provider's own main does, but for Karpenter's core
// controllers, of which internal/hands takes care.
func register(ctx context.Context, m manager.Manager, c *controller.Config) (cloudprovider.CloudProvider, error) {
	kube, err := kubernetes.NewForConfig(m.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	ctx, op := operator.NewOperator(ctx, &coreoperator.Operator{
		Manager: m, KubernetesInterface: kube, Clock: clock.RealClock{},
		EventRecorder:     events.NewRecorder(m.GetEventRecorderFor("kerf")), // karpenter v1.15.0's recorder is made of it
		InstanceTypeStore: nodeoverlay.NewInstanceTypeStore(), PredictionStore: prediction.NewStore(),
	})
	provider := awsprovider.New(
		op.InstanceTypesProvider, op.InstanceProvider, op.EventRecorder, op.GetClient(), op.AMIProvider, op.SecurityGroupProvider,
		op.CapacityReservationProvider, op.PlacementGroupProvider, op.InstanceTypeStore, op.CABundle,
		awsprovider.WithRebootForRepair(options.FromContext(ctx).FeatureGates.RebootForRepair),
	)
	for _, own := range controllers.NewControllers(
		ctx, m, op.Config, op.Clock, op.EC2API, op.GetClient(), op.EventRecorder, op.UnavailableOfferingsCache, op.SSMCache, op.ValidationCache,
		op.RecreationCache, provider, op.SubnetProvider, op.SecurityGroupProvider, op.InstanceProfileProvider, op.InstanceProvider, op.PricingProvider,
		op.AMIProvider, op.LaunchTemplateProvider, op.VersionProvider, op.InstanceTypesProvider, op.CapacityReservationProvider, op.PlacementGroupProvider,
		op.AMIResolver, op.ZonalShiftProvider, op.InstanceStatusProvider, op.CABundle, op.CELEnvironment,
	) {
		if err := own.Register(ctx, m); err != nil {
			return nil, fmt.Errorf("register a controller of the AWS provider: %w", err)
		}
	}
	c.Hooks = append(c.Hooks, registrationhooks.NewPlacementGroupRegistrationHook(op.InstanceProvider))
	return provider, nil
}
