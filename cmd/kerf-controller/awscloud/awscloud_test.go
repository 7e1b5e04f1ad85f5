package awscloud_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	servicesqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	awsprovider "github.com/aws/karpenter-provider-aws/pkg/cloudprovider"
	"github.com/aws/karpenter-provider-aws/pkg/controllers/interruption"
	"github.com/aws/karpenter-provider-aws/pkg/fake"
	awsoptions "github.com/aws/karpenter-provider-aws/pkg/operator/options"
	"github.com/aws/karpenter-provider-aws/pkg/providers/sqs"
	"github.com/aws/karpenter-provider-aws/pkg/test"
	"github.com/aws/karpenter-provider-aws/pkg/utils"
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/events"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
	coretest "sigs.k8s.io/karpenter/pkg/test"

	"github.com/kerfdev/kerf/internal/controller"
	"github.com/kerfdev/kerf/internal/model"
)

// A stage is the AWS provider over its own fake EC2, with an API server that is
// a map.
type stage struct {
	t        *testing.T
	ctx      context.Context
	api      client.Client
	aws      *test.Environment
	provider *awsprovider.CloudProvider
}

func newStage(t *testing.T, capacity ...string) *stage {
	t.Helper()
	s := &stage{t: t}
	s.ctx = awsoptions.ToContext(coreoptions.ToContext(t.Context(), coretest.Options()), test.Options(test.OptionsFields{InterruptionQueue: aws.String("test-cluster")}))
	instance := func(o client.Object) []string {
		var id string
		switch v := o.(type) {
		case *corev1.Node:
			id = v.Spec.ProviderID
		case *karpenter.NodeClaim:
			id = v.Status.ProviderID
		}
		name, err := utils.ParseInstanceID(id)
		if err != nil {
			return nil
		}
		return []string{name}
	}
	s.api = clientfake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(&karpenter.NodeClaim{}).
		WithIndex(&corev1.Node{}, "spec.instanceID", instance).WithIndex(&karpenter.NodeClaim{}, "status.instanceID", instance).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if o.GetUID() == "" {
				o.SetUID(types.UID("uid-" + o.GetName()))
			}
			return c.Create(ctx, o, opts...)
		}}).Build()
	kube := kubefake.NewSimpleClientset()
	kube.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{Major: "1", Minor: "34"}
	s.aws = test.NewEnvironment(s.ctx, &coretest.Environment{Client: s.api, KubernetesInterface: kube})
	s.provider = awsprovider.New(s.aws.InstanceTypesProvider, s.aws.InstanceProvider, events.NewRecorder(&record.FakeRecorder{}), s.api, s.aws.AMIProvider,
		s.aws.SecurityGroupProvider, s.aws.CapacityReservationProvider, s.aws.PlacementGroupProvider, s.aws.InstanceTypeStore, aws.String("ca"))
	class := test.EC2NodeClass()
	class.Name, class.UID = "default", "class"
	class.StatusConditions().SetTrue(status.ConditionReady)
	s.create(class)
	s.create(&karpenter.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "pool"},
		Spec: karpenter.NodePoolSpec{Template: karpenter.NodeClaimTemplate{Spec: karpenter.NodeClaimTemplateSpec{
			NodeClassRef: &karpenter.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"},
			Taints:       []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}},
			Requirements: []karpenter.NodeSelectorRequirementWithMinValues{
				{Key: model.LabelCapacityType, Operator: corev1.NodeSelectorOpIn, Values: capacity},
				{Key: "karpenter.k8s.aws/instance-gpu-manufacturer", Operator: corev1.NodeSelectorOpIn, Values: []string{"nvidia"}},
				{Key: model.LabelZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"test-zone-1a", "test-zone-1b"}},
			},
		}}},
	})
	return s
}

func (s *stage) create(o client.Object) {
	s.t.Helper()
	if err := s.api.Create(s.ctx, o); err != nil {
		s.t.Fatal(err)
	}
}

// pod creates a pod that asks for GPUs and has no place.
func (s *stage) pod(name string) *corev1.Pod {
	s.t.Helper()
	list := corev1.ResourceList{"cpu": resource.MustParse("2"), "nvidia.com/gpu": resource.MustParse("1")}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{
			SchedulerName: "default-scheduler", Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}},
			Tolerations: []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}},
	}
	s.create(p)
	return p
}

// decide makes one decision and returns the NodeClaims that are not going.
func (s *stage) decide() []karpenter.NodeClaim {
	s.t.Helper()
	if err := (controller.Once{Client: s.api, Cloud: s.provider, Region: "us-west-2"}).Decide(s.ctx); err != nil {
		s.t.Fatal(err)
	}
	var list karpenter.NodeClaimList
	if err := s.api.List(s.ctx, &list); err != nil {
		s.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(c karpenter.NodeClaim) bool { return c.DeletionTimestamp != nil })
}

// one returns the only NodeClaim.
func (s *stage) one(claims []karpenter.NodeClaim) *karpenter.NodeClaim {
	s.t.Helper()
	if len(claims) != 1 {
		s.t.Fatalf("%d nodeclaims, want 1", len(claims))
	}
	return &claims[0]
}

// A claim of Kerf's becomes the CreateFleet that it means.
func TestAClaimBecomesAFleet(t *testing.T) {
	s := newStage(t, "spot", "on-demand")
	s.pod("trainer")
	claim := s.one(s.decide())
	created, err := s.provider.Create(s.ctx, claim)
	if err != nil {
		t.Fatal(err)
	}
	fleet := s.aws.EC2API.CreateFleetBehavior.CalledWithInput.Pop()
	if got := string(fleet.TargetCapacitySpecification.DefaultTargetCapacityType); got != values(claim, model.LabelCapacityType)[0] {
		t.Errorf("the fleet buys %s, the claim says %v", got, values(claim, model.LabelCapacityType))
	}
	types, zones := overridden(fleet)
	if want := sorted(values(claim, model.LabelInstanceType)); !slices.Equal(types, want) {
		t.Errorf("the fleet's types are %v, the claim's %v", types, want)
	}
	if want := sorted(values(claim, model.LabelZone)); !slices.Equal(zones, want) {
		t.Errorf("the fleet's zones are %v, the claim's %v", zones, want)
	}
	template := s.aws.EC2API.CreateLaunchTemplateBehavior.CalledWithInput.Pop()
	if got := aws.ToString(template.LaunchTemplateData.ImageId); got != "ami-test2" {
		t.Errorf("the launch template has the image %s, not the one for GPUs", got)
	}
	if got := aws.ToString(fleet.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName); got != aws.ToString(template.LaunchTemplateName) {
		t.Errorf("the fleet uses the launch template %s, not %s", got, aws.ToString(template.LaunchTemplateName))
	}
	if created.Status.ProviderID == "" || created.Labels[model.LabelInstanceType] != values(claim, model.LabelInstanceType)[0] {
		t.Errorf("launched %v %s", created.Labels, created.Status.ProviderID)
	}
}

// What EC2 has no capacity for is planned around, type by type, then on demand.
func TestOutOfStockFallsBack(t *testing.T) {
	s := newStage(t, "spot", "on-demand")
	s.pod("trainer")
	seen := map[string]bool{}
	for range 12 {
		claim := s.one(s.decide())
		for _, kind := range values(claim, model.LabelCapacityType) {
			for _, typ := range values(claim, model.LabelInstanceType) {
				for _, zone := range values(claim, model.LabelZone) {
					offer := kind + "/" + typ + "/" + zone
					if seen[offer] {
						t.Fatalf("%s is out of stock, and was ordered again", offer)
					}
					seen[offer] = true
					s.aws.EC2API.InsufficientCapacityPools.Add(fake.CapacityPool{CapacityType: kind, InstanceType: typ, Zone: zone})
				}
			}
		}
		if _, err := s.provider.Create(s.ctx, claim); !cloudprovider.IsInsufficientCapacityError(err) {
			t.Fatalf("launched although out of stock: %v", err)
		}
		if err := s.api.Delete(s.ctx, claim); err != nil {
			t.Fatal(err)
		}
		if values(claim, model.LabelCapacityType)[0] == "on-demand" {
			return
		}
	}
	t.Error("it never fell back on on-demand")
}

// A spot interruption takes the NodeClaim away, and its pod has a new one.
func TestASpotInterruptionIsReplaced(t *testing.T) {
	s := newStage(t, "spot")
	pod := s.pod("trainer")
	claim := s.one(s.decide())
	created, err := s.provider.Create(s.ctx, claim)
	if err != nil {
		t.Fatal(err)
	}
	labels := created.Labels
	labels[karpenter.NodePoolLabelKey] = "gpu"
	claim.Labels, claim.Finalizers = labels, []string{karpenter.TerminationFinalizer}
	if err := s.api.Update(s.ctx, claim); err != nil {
		t.Fatal(err)
	}
	claim.Status = created.Status
	claim.Status.NodeName = "node-1"
	for _, c := range []string{karpenter.ConditionTypeLaunched, karpenter.ConditionTypeRegistered, karpenter.ConditionTypeInitialized} {
		claim.StatusConditions().SetTrue(c)
	}
	if err := s.api.Status().Update(s.ctx, claim); err != nil {
		t.Fatal(err)
	}
	s.create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "node-1", Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: created.Status.ProviderID, Taints: []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}}},
		Status:     corev1.NodeStatus{Allocatable: created.Status.Allocatable, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
	pod.Spec.NodeName, pod.Status = "node-1", corev1.PodStatus{Phase: corev1.PodRunning}
	if err := s.api.Update(s.ctx, pod); err != nil {
		t.Fatal(err)
	}
	s.interrupt(created.Status.ProviderID)
	replacement := s.one(s.decide())
	if replacement.Name == claim.Name {
		t.Fatal("the interrupted node is still counted on")
	}
	if _, err := s.provider.Create(s.ctx, replacement); err != nil {
		t.Errorf("the replacement cannot be launched: %v", err)
	}
	if again := s.decide(); len(again) != 1 {
		t.Errorf("%d nodeclaims after another look", len(again))
	}
}

// interrupt has EC2's notice arrive in the queue, and the provider read it.
func (s *stage) interrupt(providerID string) {
	s.t.Helper()
	id, err := utils.ParseInstanceID(providerID)
	if err != nil {
		s.t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{
		"version": "0", "id": "m1", "source": "aws.ec2", "account": "000000000000", "region": fake.DefaultRegion, "time": time.Now().UTC(),
		"detail-type": "EC2 Spot Instance Interruption Warning", "resources": []string{fmt.Sprintf("arn:aws:ec2:%s:instance/%s", fake.DefaultRegion, id)},
		"detail": map[string]any{"instance-id": id, "instance-action": "terminate"},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	queue := &fake.SQSAPI{}
	queue.ReceiveMessageBehavior.Output.Set(&servicesqs.ReceiveMessageOutput{Messages: []sqstypes.Message{
		{Body: aws.String(string(body)), MessageId: aws.String("m1"), ReceiptHandle: aws.String("r1")},
	}})
	provider, err := sqs.NewDefaultProvider(queue, "https://sqs."+fake.DefaultRegion+".amazonaws.com/"+fake.DefaultAccount+"/test-cluster")
	if err != nil {
		s.t.Fatal(err)
	}
	c := interruption.NewController(s.api, clock.RealClock{}, s.provider, events.NewRecorder(&record.FakeRecorder{}), provider, servicesqs.NewFromConfig(aws.Config{}), s.aws.UnavailableOfferingsCache)
	if _, err := c.Reconcile(s.ctx); err != nil {
		s.t.Fatal(err)
	}
}

// overridden lists the types and zones of a fleet, sorted.
func overridden(fleet *ec2.CreateFleetInput) (types, zones []string) {
	for _, c := range fleet.LaunchTemplateConfigs {
		for _, o := range c.Overrides {
			types, zones = append(types, string(o.InstanceType)), append(zones, aws.ToString(o.AvailabilityZone))
		}
	}
	return sorted(types), sorted(zones)
}

func sorted(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}

func values(c *karpenter.NodeClaim, key string) []string {
	for _, r := range c.Spec.Requirements {
		if r.Key == key {
			return r.Values
		}
	}
	return nil
}
