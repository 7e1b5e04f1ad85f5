package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kerfdev/kerf/lab/plane"
	"github.com/kerfdev/kerf/lab/world"
)

// patience is how long anything may take on a busy machine. Nothing is waited
// for longer than it takes.
const patience = 3 * time.Minute

// running is the one plane of this test binary.
var running *plane.Plane

// slogged takes what the cloud and the controllers log.
var slogged slog.Handler

func TestMain(m *testing.M) {
	if port := os.Getenv(childEnv); port != "" {
		if err := beController(port); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code, err := withPlane(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withPlane(run func() int) (code int, err error) {
	// A control plane has processors of its own elsewhere; here its garbage, of
	// which it makes the most, is collected less often.
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(4 << 30)
	dir, err := os.MkdirTemp("", "kerf-e2e-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file, err := os.Create(cmp.Or(os.Getenv("KERF_E2E_LOG"), filepath.Join(dir, "kerf.log")))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	slogged = slog.NewJSONHandler(file, nil)
	class, err := world.NodeClassCRD()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	config := plane.Config{
		Dir: filepath.Join(dir, "plane"), Assets: os.Getenv("KUBEBUILDER_ASSETS"), CRDs: []*apiextensionsv1.CustomResourceDefinition{class},
		// A busy machine delays the heartbeats of a hundred nodes; no test lets one miss.
		ControllerManagerFlags: []string{"--node-monitor-grace-period=10m"},
	}
	if running, err = plane.Start(ctx, config); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, running.Stop()) }()
	return run(), nil
}

// A scene is a world for one test, with the waits that tests need.
type scene struct {
	*testing.T
	*world.World
	ctx context.Context
}

// set makes a world in which a minute of the machines is a second, and prints
// its timeline at the end. Changes may be made to its Config before it starts.
func set(t *testing.T, changes ...func(*world.Config)) *scene {
	t.Helper()
	config := world.Config{
		REST: running.RESTConfig(), Namespace: namespaceOf(t.Name()), Speed: 60, Hurry: 10,
		GPUDeadline: time.Minute, StockMemory: 5 * time.Second, Logger: logr.FromSlogHandler(slogged).WithValues("test", t.Name()),
	}
	for _, change := range changes {
		change(&config)
	}
	start, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w, err := world.Start(start, config)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, World: w, ctx: t.Context()}
	t.Cleanup(func() {
		end, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		t.Log("timeline\n" + strings.Join(w.Timeline.Lines(), "\n"))
		if err := w.Close(end); err != nil {
			t.Error(err)
		}
	})
	return s
}

// namespaceOf makes a name of a test's.
func namespaceOf(test string) string {
	name := strings.ToLower(strings.TrimPrefix(test, "Test"))
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name)
	return strings.Trim(name[:min(len(name), 50)], "-")
}

// read is a file of testdata.
func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

// absent is an error as long as an object is there.
func (s *scene) absent(o client.Object, name string) error {
	err := s.Client.Get(s.ctx, client.ObjectKey{Name: name}, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return cmp.Or(err, fmt.Errorf("%s is still there", name))
}

// control starts the controller.
func (s *scene) control() *world.Controller { s.Helper(); return s.controlUntil(nil) }

// controlUntil starts a controller that dies as told.
func (s *scene) controlUntil(fatal world.Fatal) *world.Controller {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	c, err := s.Control(ctx, fatal)
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// apply applies a file of testdata, or manifests that are given as such.
func (s *scene) apply(manifests string) {
	s.Helper()
	if !strings.Contains(manifests, "\n") {
		manifests = read(s.T, manifests)
	}
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	err := s.Until(ctx, "the manifests to be applied", func() error { return s.Apply(ctx, []byte(manifests)) })
	if err != nil {
		s.Fatal(err)
	}
}

// await fails the test when a condition does not come to hold.
func (s *scene) await(what string, holds func() error) {
	s.Helper()
	s.awaitFor(patience, what, holds)
}

func (s *scene) awaitFor(d time.Duration, what string, holds func() error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, d)
	defer cancel()
	if err := s.Until(ctx, what, holds); err != nil {
		s.Fatal(err)
	}
	s.Timeline.Note("--- %s", what)
}

// count is how many pods of the namespace are in a phase and not on their way out.
func (s *scene) count(phase corev1.PodPhase) (n, all int, err error) {
	pods, err := s.Pods(s.ctx, "")
	if err != nil {
		return 0, 0, err
	}
	for i := range pods {
		if pods[i].DeletionTimestamp != nil {
			all++
			continue
		}
		if all++; pods[i].Status.Phase == phase {
			n++
		}
	}
	return n, all, nil
}

// awaitPods waits until n pods of the namespace are in a phase, and no others
// are there.
func (s *scene) awaitPods(n int, phase corev1.PodPhase) {
	s.Helper()
	s.await(fmt.Sprintf("%d pods %s", n, phase), func() error {
		have, all, err := s.count(phase)
		if err == nil && (have != n || all != n) {
			err = fmt.Errorf("%d of %d pods", have, all)
		}
		return err
	})
}

// pod reads a pod of the namespace.
func (s *scene) pod(name string) *corev1.Pod {
	s.Helper()
	p := &corev1.Pod{}
	if err := s.Client.Get(s.ctx, client.ObjectKey{Namespace: s.Namespace(), Name: name}, p); err != nil {
		s.Fatal(err)
	}
	return p
}

// awaitFleet waits until claims, nodes and instances agree on a number, and
// every node is initialized.
func (s *scene) awaitFleet(n int) {
	s.Helper()
	s.await(fmt.Sprintf("a fleet of %d", n), func() error { return s.fleet(n) })
}

func (s *scene) fleet(n int) error {
	claims, err := s.Claims(s.ctx)
	if err != nil {
		return err
	}
	nodes, err := s.Nodes(s.ctx)
	if err != nil {
		return err
	}
	if have := len(s.Cloud.Instances()); len(claims) != n || len(nodes) != n || have != n {
		return fmt.Errorf("%d nodeclaims, %d nodes, %d instances", len(claims), len(nodes), have)
	}
	for i := range claims {
		if !claims[i].DeletionTimestamp.IsZero() || !claims[i].StatusConditions().Get("Initialized").IsTrue() {
			return fmt.Errorf("nodeclaim %s is on its way", claims[i].Name)
		}
	}
	return nil
}

// settled is an error as long as the cloud runs what no NodeClaim owns, or
// claims have no instance.
func (s *scene) settled() error {
	claims, err := s.Claims(s.ctx)
	if err != nil {
		return err
	}
	return s.fleet(len(claims))
}

// said waits until an event about an object of a kind has a reason and text.
func (s *scene) said(kind, reason string, words ...string) {
	s.Helper()
	s.await(fmt.Sprintf("the event %s on a %s", reason, strings.ToLower(kind)), func() error {
		var list corev1.EventList
		if err := s.Client.List(s.ctx, &list); err != nil {
			return err
		}
		var heard []string
		for _, e := range list.Items {
			if e.InvolvedObject.Kind != kind || e.Reason != reason {
				continue
			}
			if containsAll(e.Message, words) {
				return nil
			}
			heard = append(heard, e.Message)
		}
		return fmt.Errorf("want %q, heard %q", words, heard)
	})
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
