package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

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
	for i := range 20 {
		p := crowd(s.Namespace(), 1)[0]
		p.Name = fmt.Sprintf("nowhere-%d", i)
		p.Spec.NodeSelector = map[string]string{model.LabelArch: "arm64"}
		s.create([]*corev1.Pod{p})
		s.await(fmt.Sprintf("%d decisions", i+1), func() error {
			if n, _ := figures(port); n <= float64(i) {
				return fmt.Errorf("%v decisions", n)
			}
			return nil
		})
	}
	n, seconds := figures(port)
	now, most := memory(t, process.Pid)
	t.Logf("%d nodes, %d pods: %.0f decisions of %.0f ms each; the controller's memory is %d MiB, at most %d MiB", nodes, 10*nodes, n, 1000*seconds/n, now, most)
}

// fill makes nodes and their claims as if they had been launched, ten pods on each.
func (s *scene) fill(nodes int) {
	s.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= nodes && !s.Failed(); i = int(next.Add(1)) {
				if err := s.fillOne(fmt.Sprintf("full-%04d", i)); err != nil {
					s.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if s.Failed() {
		s.FailNow()
	}
	s.awaitFor(10*patience, "the cluster to be seen", func() error {
		list, err := s.Nodes(s.ctx)
		if err == nil && len(list) < nodes {
			err = fmt.Errorf("%d nodes", len(list))
		}
		return err
	})
}

func (s *scene) fillOne(name string) error {
	labels := map[string]string{
		model.LabelNodePool: "small", model.LabelInstanceType: "g4dn.12xlarge", model.LabelZone: "us-east-1a", model.LabelCapacityType: model.OnDemand,
		model.LabelArch: "amd64", model.LabelOS: "linux", model.LabelHostname: name, karpenter.NodeRegisteredLabelKey: "true", karpenter.NodeInitializedLabelKey: "true",
	}
	room := corev1.ResourceList{"cpu": quantity("47"), "memory": quantity("180Gi"), "pods": quantity("110"), "nvidia.com/gpu": quantity("4")}
	id := "sim:///us-east-1a/i-" + name
	claim := &karpenter.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Finalizers: []string{karpenter.TerminationFinalizer}}}
	claim.Spec.NodeClassRef = &karpenter.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	claim.Spec.Requirements = []karpenter.NodeSelectorRequirementWithMinValues{{Key: model.LabelInstanceType, Operator: "In", Values: []string{"g4dn.12xlarge"}}}
	claim.Spec.ExpireAfter = karpenter.MustParseNillableDuration("Never")
	if err := s.Client.Create(s.ctx, claim); err != nil {
		return err
	}
	claim.Status.ProviderID, claim.Status.NodeName, claim.Status.Capacity, claim.Status.Allocatable = id, name, room, room
	for _, kind := range []string{karpenter.ConditionTypeLaunched, karpenter.ConditionTypeRegistered, karpenter.ConditionTypeInitialized} {
		claim.StatusConditions().SetTrue(kind)
	}
	if err := s.Client.Status().Update(s.ctx, claim); err != nil {
		return err
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Finalizers: []string{karpenter.TerminationFinalizer}},
		Spec:       corev1.NodeSpec{ProviderID: id, Taints: []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}}},
		Status:     corev1.NodeStatus{Capacity: room, Allocatable: room, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	if err := s.Client.Create(s.ctx, node); err != nil {
		return err
	}
	for i, p := range crowd(s.Namespace(), 10) {
		p.Name, p.Spec.NodeName = fmt.Sprintf("%s-%d", name, i), name
		p.Spec.Containers[0].Resources.Limits = nil
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
	cmd.Env = append(os.Environ(), childEnv+"="+port, "KUBECONFIG="+running.Kubeconfig(), "GOMEMLIMIT=500MiB")
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
		REST: rest, Settings: hands.Settings{NodeRepair: true}, MetricsAddress: "127.0.0.1:" + port,
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

// memory is what a process has resident, and has had at most, in MiB.
func memory(t *testing.T, pid int) (now, most int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("memory is measured on Linux only: " + err.Error())
	}
	for _, line := range strings.Split(string(data), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.Atoi(fields[1]) // of other fields it does not count
		switch fields[0] {
		case "VmRSS:":
			now = kib >> 10
		case "VmHWM:":
			most = kib >> 10
		}
	}
	return now, most
}
