package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
)

func gpus(n string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(n)}}
}

func TestAPodThatAsksForAGPUIsGivenTheToleration(t *testing.T) {
	got, err := client(t).CoreV1().Pods(namespace(t)).Create(t.Context(), gpuPod("p"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"nvidia.com/gpu Exists NoSchedule"}
	if diff := cmp.Diff(want, tolerations(got)); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
}

func TestTheSchedulerBindsAPodToANodeMadeByHand(t *testing.T) {
	c, ns := client(t), namespace(t)
	addNode(t, "gpu-node")
	if _, err := c.CoreV1().Pods(ns).Create(t.Context(), gpuPod("p"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod to be bound", func() error { return boundTo(t.Context(), ns, "p", "gpu-node") })
}

func TestKarpentersObjectsAreServed(t *testing.T) {
	c, err := crclient.New(running.RESTConfig(), crclient.Options{}) // importing Karpenter's types put them into the default scheme
	if err != nil {
		t.Fatal(err)
	}
	pool := &karpenter.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpenter.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
	pool.Spec.Template.Spec.Requirements = []karpenter.NodeSelectorRequirementWithMinValues{
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}},
	}
	if err := c.Create(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if got, want := pool.Spec.Disruption.ConsolidationPolicy, karpenter.ConsolidationPolicyWhenEmptyOrUnderutilized; got != want {
		t.Errorf("consolidation policy that the schema gives: want %q, got %q", want, got)
	}
}

func TestASlowAPIServerAnswersLate(t *testing.T) {
	const delay = 300 * time.Millisecond
	c := client(t)
	running.Slow(delay)
	defer running.Slow(0)
	begin := time.Now()
	if err := c.RESTClient().Get().AbsPath("/livez").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < delay {
		t.Errorf("answered after %v; want %v at least", took, delay)
	}
}

func TestACutIsSeenByWatchersAndHeals(t *testing.T) {
	c, ns := client(t), namespace(t)
	w, err := c.CoreV1().Pods(ns).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	running.Cut()
	for range w.ResultChan() { // ends when the connection does
	}
	if err := c.RESTClient().Get().AbsPath("/livez").MaxRetries(0).Do(t.Context()).Error(); err == nil {
		t.Error("a request went through while the API server was cut off")
	}
	running.Heal()
	addNode(t, "healed")
	if _, err := c.CoreV1().Pods(ns).Create(t.Context(), gpuPod("p"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the scheduler to come back", func() error { return boundTo(t.Context(), ns, "p", "") })
}

// The last test that needs the plane of TestMain as it was started.
func TestStopLeavesNothingAndAnotherStartKeepsTheObjects(t *testing.T) {
	ns := namespace(t)
	if _, err := client(t).CoreV1().Pods(ns).Create(t.Context(), gpuPod("kept"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := running.config
	server, err := url.Parse(running.RESTConfig().Host)
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Stop(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", server.Host)
	if err != nil {
		t.Fatalf("the port is still in use: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if left := ours(); left != "" {
		t.Errorf("goroutines of the lab are left:\n%s", left)
	}

	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	if running, err = Start(ctx, config); err != nil {
		t.Fatal(err)
	}
	if _, err := client(t).CoreV1().Pods(ns).Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("an object of the earlier run: %v", err)
	}
	addNode(t, "after-restart")
	eventually(t, "the scheduler of the second run to bind it", func() error { return boundTo(t.Context(), ns, "kept", "") })
}

func TestStartRefusesWhatCannotWork(t *testing.T) {
	empty := t.TempDir()
	for name, c := range map[string]struct {
		config Config
		want   string
	}{
		"no folder":           {Config{}, "plane: Dir is empty; name a folder for certificates, logs and etcd"},
		"a port that is none": {Config{Dir: empty, Port: 70000}, "plane: port 70000; expected 0 for a free one, or 1 to 65535"},
		"assets without programs": {
			Config{Dir: t.TempDir(), Assets: empty},
			"no program etcd, kube-apiserver, kube-controller-manager, kube-scheduler in " + empty,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Start(t.Context(), c.config)
			if err == nil {
				t.Fatal(errors.Join(errors.New("started"), p.Stop()))
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error:\nwant %s\ngot  %v", c.want, err)
			}
		})
	}
}

// addNode makes a node by hand, with GPUs for the pods of all tests, which its
// lease keeps ready for as long as one takes.
func addNode(t *testing.T, name string) {
	t.Helper()
	c := client(t)
	capacity := corev1.ResourceList{
		"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi"), "pods": resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("100"),
	}
	now := metav1.NowMicro()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.NewTime(now.Time), LastTransitionTime: metav1.NewTime(now.Time)}},
		},
	}
	seconds := int32(40)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceNodeLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	eventually(t, "the node "+name, func() error { // the controller manager may be reconnecting, or making the namespace
		_, err := c.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		return err
	})
	eventually(t, "its lease", func() error {
		_, err := c.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(t.Context(), lease, metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() {
		if err := client(t).CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// boundTo says why the pod does not run on that node, or on any for "".
func boundTo(ctx context.Context, ns, pod, node string) error {
	c, err := kubernetes.NewForConfig(running.RESTConfig())
	if err != nil {
		return err
	}
	p, err := c.CoreV1().Pods(ns).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if p.Spec.NodeName == "" || (node != "" && p.Spec.NodeName != node) {
		return fmt.Errorf("pod %s is on node %q: %v", pod, p.Spec.NodeName, p.Status.Conditions)
	}
	return nil
}

// tolerations writes those that a pod was given for its devices, in order.
func tolerations(pod *corev1.Pod) []string {
	var out []string
	for _, t := range pod.Spec.Tolerations {
		if strings.HasPrefix(t.Key, "node.kubernetes.io/") { // every pod is given these
			continue
		}
		s := t.Key + " " + string(t.Operator)
		for _, part := range []string{t.Value, string(t.Effect)} {
			if part != "" {
				s += " " + part
			}
		}
		out = append(out, s)
	}
	return out
}

// ours is the stack of every goroutine that runs code of this package, but for
// the test's own.
func ours() string {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var left []string
	for _, s := range strings.Split(string(stacks), "\n\n") {
		if strings.Contains(s, "kerf/lab/plane.") && !strings.Contains(s, "testing.tRunner") && !strings.Contains(s, "testing.(*M).Run") {
			left = append(left, s)
		}
	}
	return strings.Join(left, "\n\n")
}
