package plane

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	podresource "k8s.io/component-helpers/resource"
	"sigs.k8s.io/yaml"
)

// What internal/workload is tested with, so that the two cannot drift apart.
const expected = "../../internal/workload/testdata/"

// matrix is internal/workload's testdata/matrix.yaml.
type matrix struct {
	Pods []struct {
		Name        string
		Spec        json.RawMessage
		Refused     []string
		Requests    map[string]int64
		Tolerations []string
	}
	LimitRanges []struct {
		Name        string
		Limits, Ask json.RawMessage
		Refused     []string
		GPUs        []int64
	}
}

func readMatrix(t *testing.T) matrix {
	t.Helper()
	data, err := os.ReadFile(expected + "matrix.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var m matrix
	if err := yaml.UnmarshalStrict(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAdmissionMatrix(t *testing.T) {
	c, ns := client(t), namespace(t)
	for _, row := range readMatrix(t).Pods {
		t.Run(row.Name, func(t *testing.T) {
			pod, err := submit(t, c, ns, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":%s}`, row.Spec))
			if diff := cmp.Diff(row.Refused, causes(err)); diff != "" {
				t.Fatalf("refused (-want +got):\n%s\n%v", diff, err)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(row.Requests, requests(pod)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			var want []string
			for _, s := range row.Tolerations {
				want = append(want, strings.TrimSuffix(s, " added"))
			}
			if diff := cmp.Diff(want, tolerations(pod)); diff != "" {
				t.Errorf("tolerations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimitRangeMatrix(t *testing.T) {
	c := client(t)
	for _, row := range readMatrix(t).LimitRanges {
		t.Run(row.Name, func(t *testing.T) {
			ns := namespace(t)
			limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "l"}, Spec: corev1.LimitRangeSpec{Limits: make([]corev1.LimitRangeItem, 1)}}
			if err := json.Unmarshal(row.Limits, &limits.Spec.Limits[0]); err != nil {
				t.Fatal(err)
			}
			if _, err := c.CoreV1().LimitRanges(ns).Create(t.Context(), limits, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			pod, err := submit(t, c, ns, fmt.Appendf(nil,
				`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","resources":%s},{"name":"sidecar","image":"i"}]}}`, row.Ask))
			if apierrors.IsForbidden(err) { // by LimitRanger, which names no field
				for _, want := range row.Refused {
					if _, words, _ := strings.Cut(want, ": "); !strings.Contains(err.Error(), words) {
						t.Errorf("refused:\nwant %s\ngot  %v", words, err)
					}
				}
				if len(row.Refused) == 0 {
					t.Error(err)
				}
				return
			}
			if diff := cmp.Diff(row.Refused, causes(err)); diff != "" {
				t.Fatalf("refused (-want +got):\n%s\n%v", diff, err)
			}
			if err != nil {
				return
			}
			var got []int64
			for _, c := range pod.Spec.Containers {
				q := c.Resources.Requests["nvidia.com/gpu"]
				got = append(got, q.Value())
			}
			if diff := cmp.Diff(row.GPUs, got); diff != "" {
				t.Errorf("GPUs (-want +got):\n%s", diff)
			}
		})
	}
}

// The hundred pods that internal/workload takes its answers from; those were
// recorded from the code of the API server, these come from a server.
func TestRecordedAnswersAreTheServers(t *testing.T) {
	data, err := os.ReadFile(expected + "admission.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	c, ns := client(t), namespace(t)
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var want struct {
			Pod                  json.RawMessage
			Refused, Tolerations []string
		}
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		pod, err := submit(t, c, ns, want.Pod)
		got := causes(err)
		slices.Sort(got)
		said := slices.Compact(want.Refused) // a server says the same thing once
		if diff := cmp.Diff(said, got); diff != "" {
			t.Errorf("line %d: %s\nrefused (-recorded +server):\n%s\n%v", n, want.Pod, diff, err)
		}
		if err != nil {
			continue
		}
		var given []string
		for _, tol := range pod.Spec.Tolerations {
			if !strings.HasPrefix(tol.Key, "node.kubernetes.io/") {
				given = append(given, strings.Join([]string{tol.Key, string(tol.Operator), tol.Value, string(tol.Effect)}, "|"))
			}
		}
		if diff := cmp.Diff(want.Tolerations, given); diff != "" {
			t.Errorf("line %d: %s\ntolerations (-recorded +server):\n%s", n, want.Pod, diff)
		}
	}
}

func TestWhatALimitRangeDefaultsTo(t *testing.T) {
	c, ns := client(t), namespace(t)
	gpu := func(n string) corev1.ResourceList {
		return corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(n)}
	}
	for name, row := range map[string]struct {
		given, want corev1.LimitRangeItem
		refused     []string
	}{
		"a default is the request too": {
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: gpu("1")},
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: gpu("1"), DefaultRequest: gpu("1")},
			nil,
		},
		"a maximum becomes the default": {
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: gpu("2")},
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: gpu("2"), Default: gpu("2"), DefaultRequest: gpu("2")},
			nil,
		},
		"a minimum becomes the default request": {
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: gpu("1")},
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: gpu("1"), DefaultRequest: gpu("1")},
			nil,
		},
		"a default request stays alone": {
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, DefaultRequest: gpu("1")},
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, DefaultRequest: gpu("1")},
			nil,
		},
		"a default request below the default": {
			corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, DefaultRequest: gpu("1"), Default: gpu("2")},
			corev1.LimitRangeItem{},
			[]string{`spec.limits[0].defaultRequest[nvidia.com/gpu]: Invalid value: "1": default value 2 must equal to defaultRequest value 1 in nvidia.com/gpu`},
		},
		"a maximum for pods gives no defaults": {
			corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: gpu("4")},
			corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: gpu("4")},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "l"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{row.given}}}
			got, err := c.CoreV1().LimitRanges(ns).Create(t.Context(), l, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if diff := cmp.Diff(row.refused, causes(err)); diff != "" {
				t.Fatalf("refused (-want +got):\n%s\n%v", diff, err)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(row.want, got.Spec.Limits[0]); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatAQuotaCounts(t *testing.T) {
	c := client(t)
	for name, row := range map[string]struct {
		hard    map[corev1.ResourceName]string
		used    map[corev1.ResourceName]string
		refused []string
	}{
		"requests of each resource, the init container's where it is larger": {
			hard: map[corev1.ResourceName]string{
				"requests.nvidia.com/gpu": "4", "requests.nvidia.com/gpu.shared": "4", "requests.aliyun.com/gpu-mem": "4", "pods": "2", "count/pods": "2",
			},
			used: map[corev1.ResourceName]string{
				"requests.nvidia.com/gpu": "3", "requests.nvidia.com/gpu.shared": "1", "requests.aliyun.com/gpu-mem": "3", "pods": "1", "count/pods": "1",
			},
		},
		"a resource by its own name or as a limit is accepted and never counted": {
			hard: map[corev1.ResourceName]string{"nvidia.com/gpu": "4", "limits.nvidia.com/gpu": "4", "pods": "2"},
			used: map[corev1.ResourceName]string{"pods": "1"},
		},
		"half a GPU is accepted": {
			hard: map[corev1.ResourceName]string{"requests.nvidia.com/gpu": "3500m"},
			used: map[corev1.ResourceName]string{"requests.nvidia.com/gpu": "3"},
		},
		"a name without a domain": {
			hard: map[corev1.ResourceName]string{"requests.gpu": "4"},
			refused: []string{
				`spec.hard[requests.gpu]: Invalid value: "requests.gpu": must be a standard resource type or fully qualified`,
				`spec.hard[requests.gpu]: Invalid value: "requests.gpu": must be a standard resource for quota`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ns := namespace(t)
			q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
			for k, v := range row.hard {
				q.Spec.Hard[k] = resource.MustParse(v)
			}
			_, err := c.CoreV1().ResourceQuotas(ns).Create(t.Context(), q, metav1.CreateOptions{})
			if diff := cmp.Diff(row.refused, causes(err)); diff != "" {
				t.Fatalf("refused (-want +got):\n%s\n%v", diff, err)
			}
			if err != nil {
				return
			}
			// The controller manager counts once; from then on admission does.
			none := map[corev1.ResourceName]string{}
			for k := range row.used {
				none[k] = "0"
			}
			waitForUse(t, c, ns, none)
			if _, err := c.CoreV1().Pods(ns).Create(t.Context(), threeContainers(), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			waitForUse(t, c, ns, row.used)
		})
	}
}

// waitForUse waits until the quota q says that so much is used.
func waitForUse(t *testing.T, c *kubernetes.Clientset, ns string, want map[corev1.ResourceName]string) {
	t.Helper()
	eventually(t, "the quota to count", func() error {
		q, err := c.CoreV1().ResourceQuotas(ns).Get(t.Context(), "q", metav1.GetOptions{})
		if err != nil {
			return err
		}
		used := map[corev1.ResourceName]string{}
		for k, v := range q.Status.Used {
			used[k] = v.String()
		}
		if diff := cmp.Diff(want, used); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// threeContainers asks for 3 GPUs at first, then for 1 and a share.
func threeContainers() *corev1.Pod {
	shares := corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu.shared": resource.MustParse("1"), "aliyun.com/gpu-mem": resource.MustParse("3")}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "i", Image: "i", Resources: gpus("3")}},
			Containers:     []corev1.Container{{Name: "a", Image: "i", Resources: gpus("1")}, {Name: "b", Image: "i", Resources: shares}},
		},
	}
}

// submit has the API server default and check a pod, without keeping it.
func submit(t *testing.T, c *kubernetes.Clientset, ns string, manifest []byte) (*corev1.Pod, error) {
	t.Helper()
	pod := &corev1.Pod{}
	err := c.CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").
		Param("dryRun", metav1.DryRunAll).SetHeader("Content-Type", "application/json").Body(manifest).
		Do(t.Context()).Into(pod)
	return pod, err
}

// causes are the fields that were refused, and why, in the server's order.
func causes(err error) []string {
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return []string{err.Error()}
	}
	var out []string
	for _, c := range status.Status().Details.Causes {
		out = append(out, c.Field+": "+c.Message)
	}
	return out
}

// requests are what the scheduler counts for the pod: cpu in thousandths.
func requests(pod *corev1.Pod) map[string]int64 {
	var out map[string]int64
	for name, q := range podresource.PodRequests(pod, podresource.PodResourcesOptions{}) {
		n := q.Value()
		if name == corev1.ResourceCPU {
			n = q.MilliValue()
		}
		if n == 0 {
			continue
		}
		if out == nil {
			out = map[string]int64{}
		}
		out[string(name)] = n
	}
	return out
}
