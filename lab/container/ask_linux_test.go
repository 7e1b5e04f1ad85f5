package container

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kerfdev/kerf/internal/discovery"
)

// create creates the objects of a file of testdata.
func (m *machine) create(name string) {
	m.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	m.must(err)
	c, err := client.New(m.plane.RESTConfig(), client.Options{})
	m.must(err)
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		m.must(yaml.Unmarshal([]byte(doc), &object.Object))
		m.must(c.Create(m.Context(), object))
	}
}

// node waits until the Node is as it should be.
func (m *machine) node(what string, wrong func(*corev1.Node) error) {
	m.Helper()
	m.until(what, func() error {
		n, err := m.api.CoreV1().Nodes().Get(m.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return wrong(n)
	})
}

// has compares how much there is of a resource, and how much of it can be had.
func has(n *corev1.Node, resource corev1.ResourceName, capacity, allocatable int64) error {
	c, a := n.Status.Capacity[resource], n.Status.Allocatable[resource]
	if c.Value() != capacity || a.Value() != allocatable {
		return fmt.Errorf("%s: %d, allocatable %d; expected %d, %d", resource, c.Value(), a.Value(), capacity, allocatable)
	}
	return nil
}

// says compares a condition; any reason will do for "".
func says(n *corev1.Node, kind corev1.NodeConditionType, ok bool, reason string) error {
	for _, c := range n.Status.Conditions {
		if c.Type == kind && (c.Status == corev1.ConditionTrue) == ok && (reason == "" || c.Reason == reason) {
			return nil
		}
	}
	return fmt.Errorf("conditions %v; expected %s %v %s", n.Status.Conditions, kind, ok, reason)
}

// carries compares labels, of which those that are "" are not to be there, and
// looks whether kerf-node keeps its own by server-side apply.
func carries(n *corev1.Node, labels map[string]string) error {
	for name, want := range labels {
		if got := n.Labels[name]; got != want {
			return fmt.Errorf("label %s is %q, expected %q", name, got, want)
		}
	}
	for _, f := range n.ManagedFields {
		if f.Manager == discovery.Manager && f.Operation == metav1.ManagedFieldsOperationApply && strings.Contains(string(f.FieldsV1.Raw), discovery.LabelPresent) {
			return nil
		}
	}
	return fmt.Errorf("%s has applied no labels: %v", discovery.Manager, n.ManagedFields)
}

// outputOf waits until a pod has succeeded, and returns what it has written.
func (m *machine) outputOf(name string) string {
	m.Helper()
	pods := m.api.CoreV1().Pods(corev1.NamespaceDefault)
	m.until(name, func() error {
		p, err := pods.Get(m.Context(), name, metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodSucceeded {
			err = fmt.Errorf("%s: %v", p.Status.Phase, p.Status.Conditions)
		}
		return err
	})
	out, err := m.logs(name)
	m.must(err)
	return out
}

func (m *machine) logs(pod string) (string, error) {
	out, err := m.api.CoreV1().Pods(corev1.NamespaceDefault).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(m.Context())
	return string(out), err
}

// notebooks are the containers that run, by their pods; the number of restarts
// is part of a container's id.
func (m *machine) notebooks() map[string]string {
	m.Helper()
	out := map[string]string{}
	for _, p := range m.pods() {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			s := p.Status.ContainerStatuses[0]
			out[p.Name] = fmt.Sprintf("%s, restarted %d times", s.ContainerID, s.RestartCount)
		}
	}
	return out
}

// waiting says for each notebook without a place why it has none.
func (m *machine) waiting() []string {
	m.Helper()
	var out []string
	for _, p := range m.pods() {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				out = append(out, c.Message)
			}
		}
	}
	return out
}

func (m *machine) pods() []corev1.Pod {
	m.Helper()
	list, err := m.api.CoreV1().Pods(corev1.NamespaceDefault).List(m.Context(), metav1.ListOptions{LabelSelector: "app=notebook"})
	m.must(err)
	return list.Items
}

// registrations counts how often kerf-node has registered a resource.
func (m *machine) registrations() int {
	m.Helper()
	log, err := os.ReadFile(logOf("kerf-node"))
	m.must(err)
	return bytes.Count(log, []byte(" msg=registered "))
}

// tellsSick reports whether a container's status says that its slice is sick.
func tellsSick(s corev1.ContainerStatus) bool {
	return slices.ContainsFunc(s.AllocatedResourcesStatus, func(r corev1.ResourceStatus) bool {
		return len(r.Resources) == 1 && r.Resources[0].Health == corev1.ResourceHealthStatusUnhealthy
	})
}
