package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kerfdev/kerf/lab/plane"
)

// patience is how long anything may take on a busy machine. Nothing is waited
// for longer than it takes.
const patience = 2 * time.Minute

// The one cluster of this test binary: how an administrator reaches it.
var (
	config     *rest.Config
	kubeconfig string
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	if text := os.Getenv(asGuard); text != "" {
		os.Exit(beGuard(text))
	}
	code, err := withCluster(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withCluster(run func() int) (code int, err error) {
	if kubeconfig = os.Getenv("KERF_LAB_KUBECONFIG"); kubeconfig == "" {
		dir, err := os.MkdirTemp("", "kerf-guard-")
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		p, err := plane.Start(ctx, plane.Config{Dir: dir, Assets: os.Getenv("KUBEBUILDER_ASSETS")})
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, p.Stop()) }()
		kubeconfig = p.Kubeconfig()
	}
	if config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return 0, err
	}
	config.QPS = -1 // nothing is held back
	return run(), nil
}

// A user is a client that collects the warnings of the API server.
type user struct {
	*kubernetes.Clientset
	any dynamic.Interface

	mu       sync.Mutex
	warnings []string
}

func newUser(t *testing.T) *user {
	t.Helper()
	u := &user{}
	c := rest.CopyConfig(config)
	c.WarningHandler = u
	var err error
	if u.Clientset, err = kubernetes.NewForConfig(c); err != nil {
		t.Fatal(err)
	}
	if u.any, err = dynamic.NewForConfig(c); err != nil {
		t.Fatal(err)
	}
	return u
}

// HandleWarningHeader takes a warning from an answer.
func (u *user) HandleWarningHeader(code int, _, text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if code == 299 {
		u.warnings = append(u.warnings, text)
	}
}

// warned returns the warnings since the last call.
func (u *user) warned() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := u.warnings
	u.warnings = nil
	return out
}

// namespace makes a namespace, if it is not there, in which pods can be created
// at once under each of the service accounts.
func (u *user) namespace(t *testing.T, name string, labels map[string]string, accounts ...string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	_, err := u.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	must(t, err)
	for _, account := range append(accounts, "default") {
		sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}
		_, err := u.CoreV1().ServiceAccounts(name).Create(t.Context(), sa, metav1.CreateOptions{})
		must(t, err)
	}
}

// must passes over what exists already.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// scratch makes a namespace for the test alone.
func (u *user) scratch(t *testing.T) string {
	t.Helper()
	ns, err := u.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "guard-"}}, metav1.CreateOptions{})
	must(t, err)
	u.namespace(t, ns.Name, nil)
	t.Cleanup(func() { _ = u.CoreV1().Namespaces().Delete(context.Background(), ns.Name, metav1.DeleteOptions{}) })
	return ns.Name
}

// try creates a pod in a dry run.
func (u *user) try(ctx context.Context, namespace string, pod *corev1.Pod) (*corev1.Pod, error) {
	return u.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// eventually tries again until there is no error, and fails the test when that
// takes too long.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-again.C:
		}
	}
}

// pod has one container with these variables, by turns a name and a value.
func pod(name string, env ...string) *corev1.Pod {
	c := corev1.Container{Name: "main", Image: "example.com/app:1"}
	for i := 0; i+1 < len(env); i += 2 {
		c.Env = append(c.Env, corev1.EnvVar{Name: env[i], Value: env[i+1]})
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
}

// thief is a pod that the guard refuses, honest one that it lets in.
func thief(name string) *corev1.Pod  { return pod(name, "NVIDIA_VISIBLE_DEVICES", "all") }
func honest(name string) *corev1.Pod { return pod(name, "A", "b") }
