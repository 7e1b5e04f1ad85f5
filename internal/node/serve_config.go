package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/deviceplugin"
	"github.com/kerfdev/kerf/internal/discovery"
	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/mps"
	"github.com/kerfdev/kerf/internal/nodeconfig"
	"github.com/kerfdev/kerf/internal/nvml"
)

// ConfigCondition is the node condition that says whether the node's own device
// config is the one that is served.
const ConfigCondition = "DeviceConfigReady"

// errSpecs says that CDI specs could not be put where runtimes look.
var errSpecs = errors.New("no CDI specs")

// applied is what is served.
type applied struct {
	selection nodeconfig.Selection
	inv       nvml.Inventory
	links     deviceplugin.Links
	runtime   string // of the node, by which strategies are chosen
	stale     bool   // to be applied again although nothing changed
}

// but is what was applied, with other links.
func (p *applied) but(links deviceplugin.Links) applied {
	out := *p
	out.links = links
	return out
}

func (p *applied) forget() *applied {
	if p != nil {
		p.stale = true
	}
	return p
}

// consider chooses the node's config and applies it. What cannot be used leaves
// the one of before in place. It asks to be called again when that may help; an
// error is one that no waiting mends.
func (a *agent) consider(ctx context.Context) (again bool, err error) {
	node, inv, links := a.situation()
	if node == nil {
		return false, nil // its labels are not known yet
	}
	try := func(labels map[string]string) (nodeconfig.Selection, error) {
		sel, err := a.Source.Select(labels)
		if err != nil {
			return sel, err
		}
		return sel, a.apply(ctx, applied{selection: sel, inv: inv, links: links, runtime: node.Kubelet + " " + node.Runtime}, *node)
	}
	sel, problem := try(node.Labels)
	switch {
	case ctx.Err() != nil:
		return false, nil
	case problem == nil:
		a.settled(ctx, sel)
		return a.untold(ctx), nil
	case a.applied == nil && a.Source.File != "":
		return false, problem
	case a.applied == nil: // to begin with, what nodes without a label get
		if _, err := try(nil); err != nil {
			a.Log.Debug("no config to begin with", "error", err)
		}
	}
	a.refuse(ctx, problem)
	return true, nil
}

// situation returns what the loop goes by; no node while it has to wait.
func (a *agent) situation() (*nodeconfig.Node, nvml.Inventory, deviceplugin.Links) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.node == nil && a.Watch == nil {
		return &nodeconfig.Node{}, a.inv, a.links
	}
	return a.node, a.inv, a.links
}

// refuse tells everyone once why a config is not served.
func (a *agent) refuse(ctx context.Context, problem error) {
	reason := "DeviceConfigInvalid"
	var missing *gpu.ConfigError
	var busy *deviceplugin.BusyError
	switch {
	case errors.As(problem, &missing):
		reason = "DeviceConfigNotFound"
	case errors.As(problem, &busy):
		reason = "DeviceConfigWaiting"
	}
	text := problem.Error()
	if a.applied != nil {
		text += "; " + a.applied.selection.Title() + " stays in use"
	}
	if a.condition(ctx, discovery.Condition{Type: ConfigCondition, Reason: reason, Message: text}) {
		a.Log.Error("device config not applied", "reason", reason, "error", problem)
		a.event(ctx, discovery.Event{Warning: true, Reason: reason, Message: text})
	}
}

// apply serves a selection, unless it is served already.
func (a *agent) apply(ctx context.Context, want applied, node nodeconfig.Node) error {
	if a.applied != nil && !a.applied.stale && reflect.DeepEqual(*a.applied, want) {
		return nil
	}
	p, err := a.prepare(want, node)
	if err != nil {
		return err
	}
	err = a.manager.Apply(ctx, p.plan)
	if errors.Is(err, errSpecs) && len(p.settings.ListStrategies) == 0 {
		a.Log.Warn("containers get their GPUs by variable, since there is no CDI spec", "error", err)
		p.plan.Options.Strategies, p.plan.Before = []string{deviceplugin.EnvVar}, a.before(p, nil)
		err = a.manager.Apply(ctx, p.plan)
	}
	if err != nil {
		return err
	}
	quiet := a.applied != nil && reflect.DeepEqual(a.applied.but(want.links), want)
	a.applied = &want
	if a.labels != nil {
		a.labels.Set(p.labels)
	}
	if quiet {
		return nil // how the GPUs are linked has become known, no more
	}
	for _, w := range slices.Concat(want.selection.Warnings, p.served.Warnings) {
		a.Log.Warn("device config", "config", want.selection.Title(), "warning", w)
	}
	a.Log.Info("device config applied", "config", want.selection.Title(), "file", want.selection.File, "resources", p.served.Resources, "strategies", p.plan.Options.Strategies)
	return nil
}

// settled says that the node's config is the one that is served.
func (a *agent) settled(ctx context.Context, sel nodeconfig.Selection) {
	text := fmt.Sprintf("device config %s is served", sel.Title())
	if len(sel.Warnings) > 0 {
		text += "; " + strings.Join(sel.Warnings, "; ")
	}
	if a.condition(ctx, discovery.Condition{Type: ConfigCondition, True: true, Reason: "DeviceConfigApplied", Message: text}) {
		a.event(ctx, discovery.Event{Reason: "DeviceConfigApplied", Message: text})
	}
}

// prepared is a config made ready for the device plugin.
type prepared struct {
	plan     deviceplugin.Plan
	served   gpu.Served
	settings nodeconfig.Settings
	labels   map[string]string
	daemons  []mps.Plan
}

// prepare works out what a selection means on this node.
func (a *agent) prepare(want applied, node nodeconfig.Node) (prepared, error) {
	cfg := want.selection.Config
	settings, err := nodeconfig.Resolve(a.Given, a.Env, cfg)
	if err != nil {
		return prepared{}, fmt.Errorf("device config %s: %w", want.selection.Title(), err)
	}
	cfg.Flags.MIGStrategy = settings.MIGStrategy
	hardware := want.inv.Node()
	served, err := gpu.Serve(hardware, cfg)
	if err != nil {
		return prepared{}, fmt.Errorf("device config %s: %w", want.selection.Title(), err)
	}
	places := placesOf(want.inv)
	resources, err := deviceplugin.Resources(hardware, served, places)
	if err != nil {
		return prepared{}, fmt.Errorf("device config %s: %w", want.selection.Title(), err)
	}
	p := prepared{served: served, settings: settings, daemons: mps.Plans(hardware, served)}
	p.plan = deviceplugin.Plan{
		Config: want.selection.Title(), Resources: resources, Links: want.links, Parents: parentsOf(want.inv), Options: a.options(settings),
	}
	p.plan.Options.Strategies = strategies(settings, node)
	p.plan.Before = a.before(p, &want.inv)
	p.labels, _ = discovery.Labels(want.inv, cfg, a.since(cfg))
	if err := a.possible(p); err != nil {
		return prepared{}, fmt.Errorf("device config %s: %w", want.selection.Title(), err)
	}
	return p, nil
}

// possible reports what a config asks for and this node or agent cannot do.
func (a *agent) possible(p prepared) error {
	if len(p.daemons) > 0 && a.MPS == nil {
		return errors.New("sharing by MPS is not possible here")
	}
	if p.settings.IMEXRequired && len(p.plan.Options.IMEXChannels) < len(p.settings.IMEXChannels) {
		return fmt.Errorf("an IMEX channel is required and %s does not exist", imexChannel)
	}
	return modelled(p.settings)
}

// modelled reports settings of NVIDIA's plugin that Kerf does not have.
func modelled(s nodeconfig.Settings) error {
	if s.DiscoveryStrategy == "tegra" {
		return errors.New("deviceDiscoveryStrategy tegra is not supported; Kerf finds GPUs by NVML only")
	}
	return nil
}

// before makes ready what a plan's containers need: CDI specs of an inventory,
// unless there is none to be written, and MPS daemons. The daemons of before
// come back when the new ones do not start.
func (a *agent) before(p prepared, inv *nvml.Inventory) func(context.Context) error {
	uses := func(strategy string) bool { return slices.Contains(p.plan.Options.Strategies, strategy) }
	return func(ctx context.Context) error {
		if inv != nil && (uses(deviceplugin.CDICRI) || uses(deviceplugin.CDIAnnotations)) {
			if err := a.writeSpecs(p.settings, *inv); err != nil {
				return fmt.Errorf("%w: %w", errSpecs, err)
			}
		}
		if a.MPS == nil {
			return nil
		}
		if err := a.MPS.Apply(ctx, p.daemons); err != nil {
			return errors.Join(err, a.MPS.Apply(ctx, a.daemons))
		}
		a.daemons = p.daemons
		return nil
	}
}

// since is the timestamp of the labels, which a config may do without.
func (a *agent) since(cfg deviceconfig.Config) time.Time {
	if off, _ := strconv.ParseBool(cfg.Flags.Other["gfd.noTimestamp"]); off {
		return time.Time{}
	}
	return a.began
}

// imexChannel is the one IMEX channel that a config can ask for.
const imexChannel = "/dev/nvidia-caps-imex-channels/channel0"

// options are the settings that Allocate follows.
func (a *agent) options(s nodeconfig.Settings) deviceplugin.Options {
	exists := existsBelow(s.ContainerRoot)
	channels := s.IMEXChannels
	if !exists(imexChannel) {
		channels = nil
	}
	return deviceplugin.Options{
		ByIndex: s.ByIndex, PassDeviceSpecs: s.PassDeviceSpecs, DevRoot: s.DevRoot, CDIPrefix: s.CDIPrefix,
		GDRCopy: s.GDRCopy, GDS: s.GDS, MOFED: s.MOFED, IMEXChannels: channels, MPSRoot: s.MPSRoot, Packed: s.Packed,
		Exists: exists,
	}
}

// placesOf says where each GPU and MIG instance is, by UUID.
func placesOf(inv nvml.Inventory) map[string]deviceplugin.Place {
	out := map[string]deviceplugin.Place{}
	for i, g := range inv.GPUs {
		out[g.UUID] = deviceplugin.Place{NUMA: g.NUMA, Paths: inv.Paths(i, -1)}
		for j, in := range g.Instances {
			out[in.UUID] = deviceplugin.Place{NUMA: g.NUMA, Paths: inv.Paths(i, j)}
		}
	}
	return out
}

// parentsOf names the physical GPU of each GPU and MIG instance, by UUID.
func parentsOf(inv nvml.Inventory) map[string]string {
	out := map[string]string{}
	for _, g := range inv.GPUs {
		out[g.UUID] = g.UUID
		for _, in := range g.Instances {
			out[in.UUID] = g.UUID
		}
	}
	return out
}

// scores are links by UUID.
func scores(inv nvml.Inventory, links []nvml.Link) deviceplugin.Links {
	uuid := map[int]string{}
	for _, g := range inv.GPUs {
		uuid[g.Index] = g.UUID
	}
	out := deviceplugin.Links{}
	for _, l := range links {
		out[[2]string{uuid[l.A], uuid[l.B]}] = l.Score()
	}
	return out
}

// sameLabels compares the labels of a node.
func sameLabels(a, b map[string]string) bool { return maps.Equal(a, b) }
