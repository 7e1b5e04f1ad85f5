package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kerfdev/kerf/internal/admission"
)

// own is the guard's namespace.
const own = "kerf-system"

// stand runs a guard on a manager of its own until the context ends.
func stand(ctx context.Context, c *rest.Config, guard admission.Config) error {
	m, err := manager.New(c, manager.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Logger: logr.Discard(),
	})
	if err != nil {
		return err
	}
	if err := admission.Register(m, guard); err != nil {
		return err
	}
	return m.Start(ctx)
}

// address finds a free port, which a guard on this machine listens on.
func address(t *testing.T) (port int, url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port = l.Addr().(*net.TCPAddr).Port
	return port, fmt.Sprintf("https://127.0.0.1:%d", port)
}

// A sentry is a guard in this process.
type sentry struct {
	metrics *prometheus.Registry
	stop    context.CancelFunc
	ended   chan error
}

// guarded starts a guard and returns once the API server asks it. Changes may be
// made to its Config before. It fails closed, so that no failure goes unseen.
func guarded(t *testing.T, u *user, changes ...func(*admission.Config)) *sentry {
	t.Helper()
	u.namespace(t, own, nil)
	port, url := address(t)
	s := &sentry{metrics: prometheus.NewRegistry(), ended: make(chan error, 1)}
	c := admission.Config{Namespace: own, Host: "127.0.0.1", Port: port, URL: url, Closed: true, Metrics: s.metrics}
	for _, change := range changes {
		change(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() { s.ended <- stand(ctx, config, c) }()
	t.Cleanup(func() {
		cancel()
		if err := <-s.ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		disarm(t, u)
	})
	u.refuses(t, "env-visible-devices")
	return s
}

// refuses waits until the API server refuses a thief for a reason that holds
// these words, in a namespace where nothing else is.
func (u *user) refuses(t *testing.T, words string) {
	t.Helper()
	u.namespace(t, "probe", nil)
	eventually(t, "the API server refuses what breaks a rule", func() error {
		_, err := u.try(context.Background(), "probe", thief("probe"))
		switch {
		case err == nil:
			return errors.New("it was let in")
		case !strings.Contains(err.Error(), words):
			return err
		}
		return nil
	})
	u.warned()
}

// admits waits until the API server lets a thief in again.
func (u *user) admits(t *testing.T) {
	t.Helper()
	eventually(t, "the API server forgets the guard", func() error {
		_, err := u.try(context.Background(), "probe", thief("probe"))
		return err
	})
	u.warned()
}

// disarm takes away what a guard leaves in the cluster.
func disarm(t *testing.T, u *user) {
	t.Helper()
	ctx := context.Background()
	for _, err := range []error{
		u.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, admission.Name, metav1.DeleteOptions{}),
		u.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, admission.Name, metav1.DeleteOptions{}),
		u.CoreV1().Secrets(own).Delete(ctx, "kerf-guard-tls", metav1.DeleteOptions{}),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
	u.admits(t)
}

// asGuard is the variable that makes this program a guard, for being killed.
const asGuard = "KERF_LAB_AS_GUARD"

// orders are what such a guard is told.
type orders struct {
	Kubeconfig, URL string
	Port            int
	Closed          bool
}

func beGuard(text string) int {
	var o orders
	err := json.Unmarshal([]byte(text), &o)
	var c *rest.Config
	if err == nil {
		c, err = clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	}
	if err == nil {
		err = stand(context.Background(), c, admission.Config{Namespace: own, Host: "127.0.0.1", Port: o.Port, URL: o.URL, Closed: o.Closed})
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// A mortal is a guard in a process of its own.
type mortal struct {
	orders
	process *exec.Cmd
	said    bytes.Buffer
}

// newMortal gives a guard an address; it does not start it.
func newMortal(t *testing.T, u *user, closed bool) *mortal {
	t.Helper()
	u.namespace(t, own, nil)
	m := &mortal{orders: orders{Kubeconfig: kubeconfig, Closed: closed}}
	m.Port, m.URL = address(t)
	t.Cleanup(func() {
		m.kill()
		disarm(t, u)
		if t.Failed() {
			t.Logf("the guard said:\n%s", m.said.String())
		}
	})
	return m
}

// start returns once the API server asks it.
func (m *mortal) start(t *testing.T, u *user) {
	t.Helper()
	text, err := json.Marshal(m.orders)
	if err != nil {
		t.Fatal(err)
	}
	m.process = exec.Command(os.Args[0])
	m.process.Env = append(os.Environ(), asGuard+"="+string(text))
	m.process.Stdout, m.process.Stderr = &m.said, &m.said
	if err := m.process.Start(); err != nil {
		t.Fatal(err)
	}
	u.refuses(t, "env-visible-devices")
}

// kill gives it no time to say goodbye.
func (m *mortal) kill() {
	if m.process != nil {
		_ = m.process.Process.Kill()
		_ = m.process.Wait()
		m.process = nil
	}
}
