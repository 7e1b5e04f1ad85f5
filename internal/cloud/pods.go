package cloud

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kerfdev/kerf/internal/gpu"
)

// RunForAnnotation says how long a pod runs: a duration, or "forever".
const RunForAnnotation = "kerf.dev/run-for"

// run does what the kubelet of a pod's node would do with it now, and returns
// when to come back; 0 = when something happens.
func (s *Simulated) run(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	var pod corev1.Pod
	if err := s.client.Get(ctx, key, &pod); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if err := s.recover(ctx); err != nil {
		return 0, err
	}
	m, ok := s.lookNode(pod.Spec.NodeName)
	if !ok || !m.alive() {
		return 0, nil
	}
	now := s.clock.Now()
	switch {
	case pod.DeletionTimestamp != nil:
		return s.stop(ctx, &pod, now)
	case over(&pod):
		return 0, nil
	case pod.Status.Phase == corev1.PodRunning:
		s.plugged(&m, &pod)
		return s.finish(ctx, &pod, now)
	}
	if due := boundAt(&pod).Add(s.delays.Pod); now.Before(due) {
		return due.Sub(now), nil
	}
	return s.start(ctx, &m, &pod, now)
}

func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// boundAt is when the scheduler bound the pod.
func boundAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// stop removes a deleted pod at the end of its grace period; one that never ran,
// or has ended, at once.
func (s *Simulated) stop(ctx context.Context, pod *corev1.Pod, now time.Time) (time.Duration, error) {
	if pod.Status.Phase == corev1.PodRunning {
		var grace time.Duration
		if pod.DeletionGracePeriodSeconds != nil {
			grace = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
		}
		asked := pod.DeletionTimestamp.Add(-grace)
		if due := asked.Add(time.Duration(float64(grace) / s.speed)); now.Before(due) {
			return due.Sub(now), nil
		}
	}
	now0 := int64(0)
	err := s.client.Delete(ctx, pod, &client.DeleteOptions{GracePeriodSeconds: &now0, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("remove pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return 0, nil
}

// start runs a pod, unless the device plugin would refuse what it asks for.
func (s *Simulated) start(ctx context.Context, m *machine, pod *corev1.Pod, now time.Time) (time.Duration, error) {
	if wait := s.backOff(pod, now); wait > 0 {
		return wait, nil
	}
	old := pod // of a cache, which others read too
	pod = pod.DeepCopy()
	refused, crash, err := s.refusal(ctx, m, pod)
	if err != nil {
		return 0, err
	}
	switch {
	case refused != "":
		pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "UnexpectedAdmissionError", refused
	case crash != "":
		crashing(pod, crash, now)
	default:
		s.started(m, pod, now)
	}
	if err := s.client.Status().Patch(ctx, pod, client.StrategicMergeFrom(old)); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("report the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if pod.Status.Phase != corev1.PodRunning {
		return s.backOff(pod, now), nil
	}
	s.plugged(m, pod)
	return s.finish(ctx, pod, now)
}

// refusal says why a pod does not start on a node: the plugin's rule about
// requests above 1 of a shared resource, in its words, or for the plugin's own
// pod a config under which it exits.
func (s *Simulated) refusal(ctx context.Context, m *machine, pod *corev1.Pod) (refused, crash string, err error) {
	t, ok := s.shelf.book.Type(m.Type)
	if !ok || len(t.GPUs) == 0 {
		return "", "", nil
	}
	installed, err := s.configs.Current(ctx)
	if err != nil {
		return "", "", fmt.Errorf("read device configs: %w", err)
	}
	var node corev1.Node
	if err := s.client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, &node); err != nil {
		return "", "", fmt.Errorf("get node %s: %w", pod.Spec.NodeName, err)
	}
	ad, cause := gpu.ForNode(t, installed.Sharing, node.Labels)
	if cause != nil {
		if RunsPlugin(&pod.Spec) {
			return "", cause.Error(), nil
		}
		return "", "", nil
	}
	for _, c := range pod.Spec.Containers {
		for name, most := range ad.MaxRequest {
			if q := c.Resources.Limits[corev1.ResourceName(name)]; q.Value() > most {
				return fmt.Sprintf("Allocate failed due to rpc error: code = Unknown desc = request for '%s: %d' too large: maximum request size for shared resources is %d", name, q.Value(), most), "", nil
			}
		}
	}
	return "", "", nil
}

// backOff is how long a crashed pod waits until it is started again: 10 s, as
// long as a kubelet waits the first time. A config that was put right lets it start.
func (s *Simulated) backOff(pod *corev1.Pod, now time.Time) time.Duration {
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.LastTerminationState.Terminated; t != nil && c.State.Waiting != nil {
			return t.FinishedAt.Add(time.Duration(float64(10*time.Second) / s.speed)).Sub(now)
		}
	}
	return 0
}

// crashing is a pod whose containers exit as soon as they start.
func crashing(pod *corev1.Pod, why string, now time.Time) {
	pod.Status.StartTime = &metav1.Time{Time: now}
	var restarts int32
	if len(pod.Status.ContainerStatuses) > 0 {
		restarts = pod.Status.ContainerStatuses[0].RestartCount + 1
	}
	pod.Status.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, RestartCount: restarts,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: why}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Reason: "Error", Message: why, FinishedAt: metav1.NewTime(now),
			}},
		})
	}
}

// started fills in the status of a pod all of whose containers run.
func (s *Simulated) started(m *machine, pod *corev1.Pod, now time.Time) {
	at := metav1.NewTime(now)
	pod.Status.Phase, pod.Status.StartTime, pod.Status.ContainerStatuses = corev1.PodRunning, &at, nil
	pod.Status.HostIP = address(10, m.Number)
	pod.Status.HostIPs = []corev1.HostIP{{IP: pod.Status.HostIP}}
	pod.Status.PodIP = podAddress(pod.UID)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		podCondition(pod, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: at})
	}
	ready := true
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: &ready,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
		})
	}
}

func podCondition(pod *corev1.Pod, c corev1.PodCondition) {
	at := slices.IndexFunc(pod.Status.Conditions, func(old corev1.PodCondition) bool { return old.Type == c.Type })
	if at < 0 {
		pod.Status.Conditions = append(pod.Status.Conditions, c)
		return
	}
	pod.Status.Conditions[at] = c
}

// podAddress spreads pods over 11.0.0.0/8.
func podAddress(uid types.UID) string {
	n := 0
	for _, c := range []byte(uid) {
		n = (n*31 + int(c)) & 0xffffff
	}
	return address(11, n)
}

// plugged notes that the plugin runs on a machine, which its GPUs wait for.
func (s *Simulated) plugged(m *machine, pod *corev1.Pod) {
	if !m.pluginAt.IsZero() || pod.Status.StartTime == nil || !RunsPlugin(&pod.Spec) {
		return
	}
	at := pod.Status.StartTime.Time
	s.change(m.ID, func(m *machine) { m.pluginAt = at })
}

// finish ends a running pod when it is time.
func (s *Simulated) finish(ctx context.Context, pod *corev1.Pod, now time.Time) (time.Duration, error) {
	d, ends := s.runFor(pod)
	if !ends {
		return 0, nil
	}
	if due := startedAt(pod).Add(d); now.Before(due) {
		return due.Sub(now), nil
	}
	old, at := pod, metav1.NewTime(now)
	pod = pod.DeepCopy()
	pod.Status.Phase = corev1.PodSucceeded
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		podCondition(pod, corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: "PodCompleted", LastTransitionTime: at})
	}
	done := false
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		c.Ready, c.Started = false, &done
		c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "Completed", StartedAt: metav1.NewTime(startedAt(pod)), FinishedAt: at,
		}}
	}
	if err := s.client.Status().Patch(ctx, pod, client.StrategicMergeFrom(old)); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("report the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return 0, nil
}

func startedAt(pod *corev1.Pod) time.Time {
	if pod.Status.StartTime == nil {
		return pod.CreationTimestamp.Time
	}
	return pod.Status.StartTime.Time
}

// runFor says how long a pod runs, and whether it ends at all. A pod that is
// always restarted does not.
func (s *Simulated) runFor(pod *corev1.Pod) (time.Duration, bool) {
	if pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || pod.Spec.RestartPolicy == "" {
		return 0, false
	}
	scaled := func(d time.Duration) time.Duration { return time.Duration(float64(d) / s.speed) }
	if text, ok := pod.Annotations[RunForAnnotation]; ok {
		d, err := time.ParseDuration(text)
		return scaled(d), err == nil
	}
	longest, said := time.Duration(0), false
	for _, c := range pod.Spec.Containers {
		d, found, ends := sleeps(&c)
		if found && !ends {
			return 0, false
		}
		longest, said = max(longest, d), said || found
	}
	if said {
		return scaled(longest), true
	}
	return s.delays.Run, true
}

var sleep = regexp.MustCompile(`\bsleep["',\s]+([0-9.]+[smhd]?|inf(?:inity)?)\b`)

// sleeps finds what a container's command sleeps, in all.
func sleeps(c *corev1.Container) (total time.Duration, found, ends bool) {
	words := strings.Join(slices.Concat(c.Command, c.Args), " ")
	for _, m := range sleep.FindAllStringSubmatch(words, -1) {
		if strings.HasPrefix(m[1], "inf") {
			return 0, true, false
		}
		number, unit := strings.TrimRight(m[1], "smhd"), m[1][len(m[1])-1:]
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			continue
		}
		each := map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[unit]
		total += time.Duration(n * float64(cmp.Or(each, time.Second)))
		found = true
	}
	loop := strings.Contains(words, "while true") || strings.Contains(words, "while :")
	return total, found, !loop
}
