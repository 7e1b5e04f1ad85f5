//go:build gpu && cgo

package node

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/kerfdev/kerf/internal/nvml"
	"github.com/kerfdev/kerf/internal/nvml/driver"
)

// What `make gpu` checks on a machine with a GPU: the real driver behind the
// whole agent, with a fake kubelet. It needs root, for /var/run/nvidia and the
// device nodes to be seen, and nothing of a cluster.
func TestOnThisMachine(t *testing.T) {
	root := os.Getenv("DRIVER_ROOT_CTR_PATH")
	if root == "" {
		root = "/"
	}
	lib, err := driver.Open(driver.Config{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	inv, err := lib.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("inventory of %d GPUs in %s", len(inv.GPUs), time.Since(begun))
	begun = time.Now()
	links, err := lib.Links(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d links in %s", len(links), time.Since(begun))
	healthLoop(t, lib, inv)
	if err := lib.Close(); err != nil {
		t.Fatal(err)
	}
	serveHere(t, root, inv)
}

// healthLoop watches for events for a while and probes every GPU.
func healthLoop(t *testing.T, lib nvml.Library, inv nvml.Inventory) {
	events, err := lib.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for uuid, why := range events.Unwatched() {
		t.Errorf("no events of %s: %v", uuid, why)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var wait sync.WaitGroup
	wait.Go(func() {
		for e, err := events.Next(ctx); err == nil; e, err = events.Next(ctx) {
			t.Logf("an Xid meanwhile: %+v", e)
		}
	})
	for _, g := range inv.GPUs {
		begun := time.Now()
		p, err := lib.Probe(ctx, g.UUID)
		if err != nil || p.Recovery != nvml.RecoveryUnknown && p.Recovery != nvml.RecoveryNone {
			t.Errorf("probe of GPU %d: %+v, %v", g.Index, p, err)
		}
		t.Logf("probe of GPU %d in %s, recovery %q", g.Index, time.Since(begun), p.Recovery)
	}
	wait.Wait()
	if err := events.Close(); err != nil {
		t.Error(err)
	}
}

// serveHere runs the agent on the real driver, four replicas a GPU, and takes a
// device as a pod would.
func serveHere(t *testing.T, root string, inv nvml.Inventory) {
	dir := shortDir(t)
	config := filepath.Join(dir, "shared.yaml")
	text := "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startCommand(t, dir, "--driver-root-ctr-path", root, "--driver-root", root, "--config-file", config, "--device-list-strategy", "cdi-cri")
	c.await(4 * len(inv.GPUs))
	ids := []string{inv.GPUs[0].UUID + "::0"}
	begun := time.Now()
	got, err := c.kubelet.Allocate(t.Context(), "nvidia.com/gpu", ids)
	if err != nil || len(got.CdiDevices) == 0 {
		t.Fatalf("%v, %v", got, err)
	}
	t.Logf("Allocate in %s: %v", time.Since(begun), got.CdiDevices)
	var names []string
	for _, d := range got.CdiDevices {
		names = append(names, d.Name)
	}
	resolves(t, filepath.Join(dir, "cdi"), names)
}

// resolves injects the devices into a container as a runtime does, and checks
// that what they bring is there.
func resolves(t *testing.T, dir string, names []string) {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	container := &specs.Spec{Linux: &specs.Linux{Resources: &specs.LinuxResources{}}, Process: &specs.Process{}}
	if missing, err := cache.InjectDevices(container, names...); err != nil {
		t.Fatalf("%v: unresolved %v", err, missing)
	}
	var nodes []string
	for _, d := range container.Linux.Devices {
		nodes = append(nodes, d.Path)
	}
	gpu := slices.ContainsFunc(nodes, func(n string) bool {
		return strings.HasPrefix(n, "/dev/nvidia") && strings.Trim(strings.TrimPrefix(n, "/dev/nvidia"), "0123456789") == ""
	})
	if !gpu {
		t.Errorf("no GPU among the device nodes %q", nodes)
	}
	for _, m := range container.Mounts {
		if _, err := os.Stat(m.Source); err != nil {
			t.Errorf("mount of %s: %v", m.Source, err)
		}
	}
	t.Logf("CDI: device nodes %q, %d mounts, hooks %v", nodes, len(container.Mounts), container.Hooks != nil)
}
