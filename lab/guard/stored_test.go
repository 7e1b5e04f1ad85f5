package guard

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pod from before the guard can be labelled, its finalizer removed, and
// deleted, whether the guard answers or, failing closed, is dead.
func TestWhatIsStoredIsNotHeldUp(t *testing.T) {
	u := newUser(t)
	ns := u.scratch(t)
	m := newMortal(t, u, true)
	for _, name := range []string{"watched", "unwatched"} {
		p := thief(name)
		p.Finalizers = []string{"example.com/slow"}
		if _, err := u.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	m.start(t, u)
	u.sendOff(t, ns, "watched")
	m.kill()
	u.refuses(t, "failed calling webhook")
	u.sendOff(t, ns, "unwatched")
}

// sendOff labels a pod, deletes it, and takes its finalizer away.
func (u *user) sendOff(t *testing.T, ns, name string) {
	t.Helper()
	pods := u.CoreV1().Pods(ns)
	patch := func(text string, subresources ...string) {
		t.Helper()
		if _, err := pods.Patch(t.Context(), name, types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{}, subresources...); err != nil {
			t.Fatalf("%s of %s: %v", text, name, err)
		}
	}
	patch(`{"metadata":{"labels":{"team":"a"}}}`)
	patch(`{"status":{"phase":"Running"}}`, "status")
	now := int64(0)
	if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	patch(`{"metadata":{"finalizers":null}}`)
	eventually(t, "the pod is gone", func() error {
		_, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}
