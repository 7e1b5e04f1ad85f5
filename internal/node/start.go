package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/health"
	"github.com/kerfdev/kerf/internal/mps"
	"github.com/kerfdev/kerf/internal/nodeconfig"
	"github.com/kerfdev/kerf/internal/nvml"
	"github.com/kerfdev/kerf/internal/nvml/driver"
)

// mpsRoot is where the agent sees the MPS root of the host; containers find
// their pipes below it too, as with NVIDIA's plugin.
const mpsRoot = "/mps"

// A start is the flags of serve that are Kerf's own, and those that NVIDIA's
// config manager has as variables.
type start struct {
	source               nodeconfig.Source
	node, kubeconfig     string
	listen, podResources string
	cdiDir, state        string
	inventory, faults    string
	disable, enable, xid string // health policy

	recorded atomic.Pointer[nvml.Recorded] // what plays the inventory
}

func (a *app) serveCommand() *cobra.Command {
	var s start
	c := &cobra.Command{
		Use:   "serve",
		Short: "serve this node's GPUs to its kubelet",
		Long: `  kerf-node serve --config-dir /available-configs --node-name gpu-1

Serves the node's GPUs under the device config that its label
nvidia.com/device-plugin.config names, labels the node, watches its GPUs, and
applies changes of label and config without a restart. The flags and variables
of NVIDIA's device plugin and of its config manager are understood.`,
		Args: cobra.NoArgs,
	}
	plugin := pflag.NewFlagSet("plugin", pflag.ContinueOnError)
	for _, f := range nodeconfig.Flags() {
		addFlag(plugin, f)
	}
	c.Flags().AddFlagSet(plugin)
	a.ownFlags(c.Flags(), &s)
	c.RunE = func(c *cobra.Command, _ []string) error {
		serve, err := s.serve(given(c.Flags()), a)
		if err != nil {
			return err
		}
		return s.run(c.Context(), serve)
	}
	return c
}

// addFlag adds a flag of NVIDIA's plugin; its other names are not listed.
func addFlag(flags *pflag.FlagSet, f nodeconfig.Flag) {
	usage := f.Usage + " (" + strings.Join(f.Env, ", ") + ")"
	for i, name := range append([]string{f.Name}, f.Aliases...) {
		switch f.Kind {
		case nodeconfig.Bool:
			on, _ := strconv.ParseBool(f.Default) // a default is true or false
			flags.Bool(name, on, usage)
		case nodeconfig.List:
			flags.StringSlice(name, nil, usage)
		default:
			flags.String(name, f.Default, usage)
		}
		if i > 0 {
			_ = flags.MarkHidden(name) // it was just added
		}
	}
}

// given returns the plugin's flags that stand on the command line.
func given(flags *pflag.FlagSet) map[string]string {
	out := map[string]string{}
	for _, f := range nodeconfig.Flags() {
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			flag := flags.Lookup(name)
			if !flag.Changed {
				continue
			}
			out[f.Name] = flag.Value.String()
			if list, ok := flag.Value.(pflag.SliceValue); ok {
				out[f.Name] = strings.Join(list.GetSlice(), ",")
			}
		}
	}
	return out
}

func (a *app) ownFlags(flags *pflag.FlagSet, s *start) {
	text := func(to *string, name, env, otherwise, usage string) {
		if v, ok := a.Env(env); ok && env != "" {
			otherwise = v
		}
		if env != "" {
			usage += " (" + env + ")"
		}
		flags.StringVar(to, name, otherwise, usage)
	}
	text(&s.source.Dir, "config-dir", "CONFIG_FILE_SRCDIR", "", "folder with a file for each device config, as a ConfigMap is mounted")
	text(&s.source.Label, "node-label", "NODE_LABEL", "", "node label that names a config (default nvidia.com/device-plugin.config)")
	text(&s.source.Default, "default-config", "DEFAULT_CONFIG", "", "config of nodes without the label")
	fallbacks, _ := a.Env("FALLBACK_STRATEGIES")
	flags.StringSliceVar(&s.source.Fallbacks, "fallback-strategies", words(fallbacks), "when neither names a config: named, single, empty (FALLBACK_STRATEGIES; default named, single)")
	flags.BoolVar(&s.source.Lenient, "lenient", false, "take configs as they are evidently meant, with warnings")
	text(&s.node, "node-name", "NODE_NAME", "", "name of this node; without it no cluster is told of anything")
	text(&s.kubeconfig, "kubeconfig", "KUBECONFIG", "", "how to reach the cluster (default: as a pod does)")
	text(&s.listen, "listen", "", ":8080", `address of /metrics, /healthz and /readyz; "" for none`)
	text(&s.podResources, "pod-resources-socket", "", "/var/lib/kubelet/pod-resources/kubelet.sock", `the kubelet's socket that says which pods hold which GPUs; "" to switch configs without asking`)
	text(&s.cdiDir, "cdi-dir", "", "/var/run/cdi", "folder of CDI specs")
	text(&s.state, "state-dir", "", "/var/lib/kerf", "folder in which faults of GPUs outlive a restart")
	text(&s.inventory, "inventory", "", "", "serve this inventory instead of the machine's driver, a file or a recording, for tests")
	text(&s.faults, "faults", "", "", "named pipe from which faults of the inventory are read, a line each, for tests")
	text(&s.disable, "disable-health-checks", "DP_DISABLE_HEALTHCHECKS", "", "Xids to ignore, or all")
	text(&s.enable, "enable-health-checks", "DP_ENABLE_HEALTHCHECKS", "", "Xids not to ignore, or all")
	text(&s.xid, "xid-classes", "KERF_XID_CLASSES", "", "what Xids mean, as 94=reset,69=ignore: ignore, transient, reset or fatal")
}

func words(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" })
}

// serve puts together what the agent works with.
func (s *start) serve(given map[string]string, a *app) (Serve, error) {
	log := slog.New(slog.NewTextHandler(a.Err, nil))
	policy, err := health.NewPolicy(s.disable, s.enable, s.xid)
	if err != nil {
		return Serve{}, err
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // else fences end with the agent
	out := Serve{
		Given: given, Env: a.Env, Source: s.source, Open: openDriver, Specs: driverSpecs(), MPS: mps.NewSupervisor(mpsRoot, mps.Exec{}, log),
		PodResources: s.podResources, CDIDir: s.cdiDir, Listen: s.listen, Policy: policy, Boot: strings.TrimSpace(string(boot)), Log: log,
	}
	if s.state != "" && out.Boot != "" {
		out.Fences = filepath.Join(s.state, "fences.json")
	}
	early, err := nodeconfig.Resolve(given, a.Env, deviceconfig.Config{})
	if err != nil {
		return Serve{}, err
	}
	out.Source.File = early.ConfigFile
	if err := s.join(&out); err != nil {
		return Serve{}, err
	}
	return out, s.play(&out)
}

// join connects the agent with its cluster, if it is part of one.
func (s *start) join(serve *Serve) error {
	if s.node == "" {
		serve.Log.Info("no node name is given: no cluster is told of anything")
		return nil
	}
	c, err := connect(s.kubeconfig)
	if err != nil {
		return err
	}
	watched := nodeconfig.API{HTTP: c.http, Server: c.server, Node: s.node, Log: serve.Log}
	serve.Watch, serve.API = watched.Watch, c.teller(s.node)
	return nil
}

// play puts a recorded inventory in the place of the driver.
func (s *start) play(serve *Serve) error {
	if s.inventory == "" {
		if s.faults != "" {
			return errors.New("--faults is for an --inventory: a driver has faults of its own")
		}
		return nil
	}
	inv, err := nvml.Load(s.inventory)
	if err != nil {
		return err
	}
	serve.Specs = nil
	serve.Open = func(nodeconfig.Settings) (nvml.Library, error) {
		s.recorded.Store(nvml.NewRecorded(inv))
		return s.recorded.Load(), nil
	}
	return nil
}

// openDriver loads the machine's own driver.
func openDriver(s nodeconfig.Settings) (nvml.Library, error) {
	return driver.Open(driver.Config{Root: s.ContainerRoot})
}

// run serves until a signal ends it; SIGHUP reloads.
func (s *start) run(ctx context.Context, serve Serve) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reload := make(chan struct{})
	serve.Reload = reload
	tasks.Go(func() { onHangup(ctx, reload) })
	if s.faults != "" {
		pipe, err := os.OpenFile(s.faults, os.O_RDWR, 0) // for writing too, so that it has no end
		if err != nil {
			return fmt.Errorf("read faults: %w", err)
		}
		context.AfterFunc(ctx, func() { _ = pipe.Close() }) // which ends the reading
		tasks.Go(func() { s.readFaults(pipe, serve.Log) })
	}
	err := serve.Run(ctx)
	if daemons, ok := serve.MPS.(*mps.Supervisor); ok {
		err = errors.Join(err, daemons.Close(context.WithoutCancel(ctx)))
	}
	return err
}

// onHangup passes SIGHUPs on until the context ends.
func onHangup(ctx context.Context, reload chan<- struct{}) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
		}
		select {
		case <-ctx.Done():
		case reload <- struct{}{}:
		}
	}
}

// readFaults makes happen to the recorded machine what the lines say.
func (s *start) readFaults(lines io.Reader, log *slog.Logger) {
	for scan := bufio.NewScanner(lines); scan.Scan(); {
		lib := s.recorded.Load()
		if lib == nil {
			log.Warn("fault before the inventory is served", "fault", scan.Text())
			continue
		}
		if err := lib.Do(scan.Text()); err != nil {
			log.Warn("no fault", "error", err)
			continue
		}
		log.Info("fault", "fault", scan.Text())
	}
}
