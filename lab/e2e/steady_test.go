package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"

	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/controller"
	"github.com/kerfdev/kerf/internal/hands"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/lab/world"
)

// A controller in a process of its own, beside 2,000 nodes and 20,000 pods: how
// long a decision takes, and how much memory the process has.
func TestAControllerOfTwoThousandNodes(t *testing.T) {
	nodes := number(t, "KERF_NODES", 0)
	if nodes == 0 {
		t.Skip("KERF_NODES=2000 runs it; it fills a cluster, which takes minutes")
	}
	s := set(t, func(c *world.Config) { c.Terse = true })
	s.apply("scale.yaml")
	s.prepare()
	s.fill(nodes)
	port, process := s.child()
	s.awaitFor(10*patience, "the controller to know the cluster", func() error { return s.decided(1) })
	time.Sleep(70 * time.Second) // in its first minute it goes through all of it, and is as sparing as can be
	before, secondsBefore := figures(port)
	const more = 10
	for i := range more {
		s.awaitFor(patience, fmt.Sprintf("%d decisions", i+2), func() error { return s.decided(i + 2) })
	}
	after, secondsAfter := figures(port)
	m := memory(t, process.Pid)
	t.Logf("%d nodes, %d pods: %.0f decisions of %.0f ms each; the controller's memory is %d MiB, of which %d MiB are program text of this test, and was %d MiB at most",
		nodes, 10*nodes, after-before, 1000*(secondsAfter-secondsBefore)/(after-before), m["VmRSS"], m["RssFile"], m["VmHWM"])
	if m["VmRSS"] > 600 {
		t.Errorf("the controller's memory is %d MiB; want at most 600", m["VmRSS"])
	}
}

// decided has the controller decide on one more pod, the n-th, which no pool has
// a node for, and looks whether it has said so. The controller's metrics would
// tell too, but with so many nodes they are work to write.
func (s *scene) decided(n int) error {
	p := crowd(s.Namespace(), 1)[0]
	p.Name = fmt.Sprintf("nowhere-%d", n)
	p.Spec.NodeSelector = map[string]string{model.LabelArch: "arm64"}
	if err := s.Client.Create(s.ctx, p); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	var events corev1.EventList
	if err := s.Seen.List(s.ctx, &events, client.InNamespace(s.Namespace())); err != nil {
		return err
	}
	if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.Name == p.Name && strings.HasPrefix(e.Source.Component, "kerf")
	}) {
		return fmt.Errorf("pod %s was told nothing", p.Name)
	}
	return nil
}

// fill makes nodes and their claims as if they had been launched, ten pods on each.
func (s *scene) fill(nodes int) {
	s.Helper()
	mould := s.mould()
	s.each(nodes, 16, func(i int) error { return s.fillOne(mould, fmt.Sprintf("full-%04d", i)) })
	s.awaitFor(10*patience, "the cluster to be seen", func() error {
		list, err := s.Nodes(s.ctx)
		if err == nil && len(list) < nodes {
			err = fmt.Errorf("%d nodes", len(list))
		}
		return err
	})
}

// mould makes the NodeClaim, with its status, of which all others are copies: one
// that a cloud has launched.
func (s *scene) mould() *karpenter.NodeClaim {
	s.Helper()
	var pool karpenter.NodePool
	if err := s.Client.Get(s.ctx, client.ObjectKey{Name: "small"}, &pool); err != nil {
		s.Fatal(err)
	}
	template := scheduling.NewNodeClaimTemplate(&pool)
	all, err := s.Cloud.GetInstanceTypes(s.ctx, &pool)
	if err != nil {
		s.Fatal(err)
	}
	template.InstanceTypeOptions = slices.DeleteFunc(slices.Clone(all), func(t *cloudprovider.InstanceType) bool { return t.Name != "g4dn.12xlarge" })
	claim := template.ToNodeClaim()
	claim.GenerateName, claim.Finalizers = "", []string{karpenter.TerminationFinalizer}
	c, err := cloud.NewSimulated(cloud.Config{Client: s.Client, Book: s.Book}) // nothing runs its machines
	if err != nil {
		s.Fatal(err)
	}
	launched, err := c.Create(s.ctx, claim)
	if err != nil {
		s.Fatal(err)
	}
	maps.Copy(claim.Labels, launched.Labels)
	claim.Labels[karpenter.NodeRegisteredLabelKey], claim.Labels[karpenter.NodeInitializedLabelKey] = "true", "true"
	maps.Copy(claim.Annotations, launched.Annotations)
	claim.Status.ProviderID, claim.Status.ImageID = launched.Status.ProviderID, launched.Status.ImageID
	claim.Status.Capacity, claim.Status.Allocatable = launched.Status.Capacity, launched.Status.Allocatable
	for _, kind := range []string{karpenter.ConditionTypeLaunched, karpenter.ConditionTypeRegistered, karpenter.ConditionTypeInitialized} {
		claim.StatusConditions().SetTrue(kind)
	}
	return claim
}

// fillOne makes a NodeClaim, its node, and pods that leave no GPU on it.
func (s *scene) fillOne(mould *karpenter.NodeClaim, name string) error {
	claim := mould.DeepCopy()
	claim.Name = name
	if err := s.Client.Create(s.ctx, claim); err != nil {
		return err
	}
	claim.Status = *mould.Status.DeepCopy()
	claim.Status.ProviderID += "-" + name
	claim.Status.NodeName = name
	if err := s.Client.Status().Update(s.ctx, claim); err != nil {
		return err
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: maps.Clone(claim.Labels), Finalizers: []string{karpenter.TerminationFinalizer}},
		Spec:       corev1.NodeSpec{ProviderID: claim.Status.ProviderID, Taints: claim.Spec.Taints},
		Status: corev1.NodeStatus{
			Capacity: claim.Status.Capacity, Allocatable: claim.Status.Allocatable,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	node.Labels[model.LabelHostname] = name
	if err := s.Client.Create(s.ctx, node); err != nil {
		return err
	}
	for i, p := range crowd(s.Namespace(), 10) {
		p.Name, p.Spec.NodeName = fmt.Sprintf("%s-%d", name, i), name
		p.Spec.Containers[0].Resources.Limits = nil
		p.Spec.Tolerations = []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}}
		if i < 4 {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": quantity("1")}
		}
		if err := s.Client.Create(s.ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// childEnv holds the port of a controller that is a process of its own.
const childEnv = "KERF_E2E_CONTROLLER"

// child starts such a controller.
func (s *scene) child() (port string, process *os.Process) {
	s.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	_, port, _ = net.SplitHostPort(l.Addr().String()) // of an address that the system gave
	if err := l.Close(); err != nil {
		s.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+port, "KUBECONFIG="+running.Kubeconfig())
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			s.Error(err)
		}
	})
	return port, cmd.Process
}

// beController is what the child runs.
func beController(port string) error {
	rest, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	book, err := catalog.Load("us-east-1")
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return controller.Run(ctx, controller.Config{
		// The library's gauges of each node and pod would be the most of the memory.
		REST: rest, Frugal: true, Settings: hands.Settings{NodeRepair: true, Quiet: true}, MetricsAddress: "127.0.0.1:" + port,
		Cloud: func(_ context.Context, m manager.Manager, configs cloud.Configs) (cloudprovider.CloudProvider, error) {
			return cloud.NewSimulated(cloud.Config{Client: m.GetClient(), Book: book, Configs: configs})
		},
	})
}

// figures are the decisions so far, and the seconds that they took.
func figures(port string) (n, seconds float64) {
	answer, err := http.Get("http://127.0.0.1:" + port + "/metrics")
	if err != nil {
		return 0, 0 // it is not up yet
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "kerf_loop_seconds_count "); ok {
			n, _ = strconv.ParseFloat(text, 64)
		}
		if text, ok := strings.CutPrefix(lines.Text(), "kerf_loop_seconds_sum "); ok {
			seconds, _ = strconv.ParseFloat(text, 64)
		}
	}
	return n, seconds
}

// memory is what a process has resident, in MiB by the names of Linux.
func memory(t *testing.T, pid int) map[string]int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("memory is measured on Linux only: " + err.Error())
	}
	out := map[string]int{}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == "kB" {
			kib, _ := strconv.Atoi(fields[1])
			out[strings.TrimSuffix(fields[0], ":")] = kib >> 10
		}
	}
	return out
}
