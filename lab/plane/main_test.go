package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// startTime is how long a start may take on a busy machine.
const startTime = 3 * time.Minute

// running is the one plane of this test binary.
var running *Plane

func TestMain(m *testing.M) {
	code, err := withPlane(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withPlane(run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "kerf-plane-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	if running, err = Start(ctx, Config{Dir: dir, Assets: os.Getenv("KUBEBUILDER_ASSETS")}); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, running.Stop()) }()
	return run(), nil
}

// client is the administrator's.
func client(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(running.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// namespace makes one for the test alone, in which pods can be created.
func namespace(t *testing.T) string {
	t.Helper()
	c := client(t)
	ns, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the default service account", func() error {
		_, err := c.CoreV1().ServiceAccounts(ns.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	return ns.Name
}

// eventually fails the test when try does not succeed within a minute.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := running.until(ctx, what, try); err != nil {
		t.Fatal(err)
	}
}

// gpuPod asks for one GPU and tolerates nothing.
func gpuPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Resources: gpus("1")}}},
	}
}
