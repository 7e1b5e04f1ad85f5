package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/source"
)

// unreachable is a cluster that cannot be asked.
type unreachable struct{}

func (unreachable) Current(context.Context) (*cloud.Installation, error) {
	return nil, errors.New("away")
}

// The guard knows from device configs what one container is granted and which
// resources there are; without configs, or without an answer, it knows nothing.
func TestWhatTheGuardKnowsOfDevicePlugins(t *testing.T) {
	docs, _ := source.Parse(source.File{Name: "c.yaml", Data: []byte(`version: v1
sharing: {timeSlicing: {renameByDefault: true, failRequestsGreaterThanOne: true, resources: [{name: nvidia.com/gpu, replicas: 10}]}}
`)})
	config, problems := deviceconfig.Decode(docs[0].Root)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	ten := cloud.Static(cloud.Installation{Sharing: model.Sharing{Configs: map[string]deviceconfig.Config{"ten": config}}})
	g := &granted{ctx: t.Context(), configs: ten}
	for range 2 { // the second time it is remembered
		most, offered := g.devices()
		if d := cmp.Diff(map[string]int64{"nvidia.com/gpu.shared": 1}, most); d != "" {
			t.Errorf("granted (-want +got):\n%s", d)
		}
		want := []string{"nvidia.com/gpu", "nvidia.com/gpu.shared", guard.AnySlice}
		if d := cmp.Diff(want, slices.Sorted(maps.Keys(offered))); d != "" {
			t.Errorf("offered (-want +got):\n%s", d)
		}
	}
	for name, configs := range map[string]cloud.Configs{"no config": cloud.Static(cloud.Installation{}), "no answer": unreachable{}} {
		if most, offered := (&granted{ctx: t.Context(), configs: configs}).devices(); most != nil || offered != nil {
			t.Errorf("%s: %v, %v", name, most, offered)
		}
	}
}
