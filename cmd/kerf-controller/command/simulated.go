package command

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/controller"
)

// simulate runs the controller on machines that do not exist: nodes register,
// run pods and go as real ones would, at the given speed.
func simulate(c *controller.Config, speed float64) {
	region := c.Region
	if region == "" {
		region = "us-east-1"
	}
	c.Cloud = func(_ context.Context, m manager.Manager, configs cloud.Configs) (cloudprovider.CloudProvider, error) {
		book, err := catalog.Load(region)
		if err != nil {
			return nil, fmt.Errorf("load the book of %s: %w", region, err)
		}
		sim, err := cloud.NewSimulated(cloud.Config{Client: m.GetClient(), Book: book, Configs: configs, Speed: speed})
		if err != nil {
			return nil, err
		}
		return sim, sim.Register(m)
	}
}
