// Package world is a cluster to try Kerf on, whole and in one process: a
// control plane that runs, a simulated cloud with its machines, and Kerf's
// controller.
//
//	w, err := world.Start(ctx, world.Config{Plane: plane, Speed: 60})
//	err = w.Apply(ctx, manifests)
//	c, err := w.Control(ctx, nil)
//	err = w.Until(ctx, "the pod to run", func() error {...})
//
// The cloud outlives the controllers: [Controller.Kill] ends one as a kill of
// its process would, at any point that a [Fatal] names, and Control starts the
// next. What happens is written down in a [Timeline].
//
// One plane serves many worlds, one after the other: Close leaves a plane as
// Start found it, without pools, nodes, workloads or instances.
package world
