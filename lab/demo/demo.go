package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/kerfdev/kerf/lab/world"
)

var (
	//go:embed manifests/cluster.yaml
	clusterManifests []byte
	//go:embed manifests/workloads.yaml
	workloadManifests []byte
)

// Config says on what the demo runs and where it is shown.
type Config struct {
	// REST reaches the API server of a plane that knows world.NodeClassCRD.
	REST *rest.Config
	Out  io.Writer
	// Screen is what can be shown on Out; the zero value is plain lines.
	Screen Screen
	Logger logr.Logger
}

// speed is how much faster machines are than real ones: 45 seconds until GPUs
// are there are three, a minute of work is four.
const speed = 15

// least is how long the full fleet is left on the screen.
const least = 5 * time.Second

// Run plays the demo to its end, well within two minutes on an idle machine.
func Run(ctx context.Context, c Config) error {
	compared, err := compare()
	if err != nil {
		return err
	}
	show := newShow(c)
	w, err := world.Start(ctx, world.Config{
		REST: c.REST, Speed: speed, Hurry: speed, Logger: c.Logger, Line: show.line,
	})
	if err != nil {
		return err
	}
	show.world = w
	err = play(ctx, w, show, compared)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return errors.Join(err, w.Close(end))
}

// play goes through the acts.
func play(ctx context.Context, w *world.World, show *show, compared comparison) error {
	show.act("two pools and the device plugin are applied; one pool cuts each GPU into ten")
	if err := w.Apply(ctx, clusterManifests); err != nil {
		return err
	}
	if _, err := w.Control(ctx, nil); err != nil {
		return err
	}
	show.act("27 pods are applied: 25 notebooks that share GPUs, a trainer and a job that do not")
	if err := w.Apply(ctx, workloadManifests); err != nil {
		return err
	}
	if err := show.until(ctx, func() (string, bool) { return running(ctx, w, 27) }); err != nil {
		return err
	}
	peak := show.tally()
	if err := show.pause(ctx, least); err != nil {
		return err
	}
	show.act("the load drops: 5 notebooks are left, and the job ends by itself")
	if err := scale(ctx, w, "notebook", 5); err != nil {
		return err
	}
	if err := show.until(ctx, func() (string, bool) { return fleet(w, 2) }); err != nil {
		return err
	}
	show.summary(peak, show.tally(), compared)
	return nil
}

// running counts the pods that run, or have.
func running(ctx context.Context, w *world.World, want int) (left string, done bool) {
	pods, err := w.Pods(ctx, "")
	if err != nil {
		return err.Error(), false
	}
	n := 0
	for i := range pods {
		if p := pods[i].Status.Phase; p == corev1.PodRunning || p == corev1.PodSucceeded {
			n++
		}
	}
	return fmt.Sprintf("%d of %d pods run", n, want), n == want
}

// fleet counts the instances.
func fleet(w *world.World, want int) (left string, done bool) {
	n := len(w.Cloud.Instances())
	return fmt.Sprintf("%d nodes, going to %d", n, want), n == want
}

func scale(ctx context.Context, w *world.World, name string, replicas int) error {
	d := &appsv1.Deployment{}
	d.Namespace, d.Name = w.Namespace(), name
	if err := w.Client.Patch(ctx, d, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))); err != nil {
		return fmt.Errorf("scale %s: %w", name, err)
	}
	return nil
}
