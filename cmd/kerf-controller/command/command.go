// Package command is the command line of kerf-controller: flags, logs, signals,
// and which cloud to run on.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kerfdev/kerf/cmd/kerf-controller/awscloud"
	"github.com/kerfdev/kerf/internal/controller"
	"github.com/kerfdev/kerf/internal/live"
)

// Exit codes.
const (
	exitOK       = 0
	exitFailed   = 1 // it ran and ended by itself
	exitUnusable = 2 // it did not begin: a flag, or a cluster in which it must not run
)

const help = `  kerf-controller --cloud aws --cluster-name prod --interruption-queue prod
  kerf-controller --cloud simulated --kubeconfig lab.yaml

Kerf-controller gives the pods that wait in a cluster the nodes that fit. It works
on Karpenter's NodePools and node classes as they are, with the solver of kerf
plan and Karpenter's own controllers, and does not run beside Karpenter.
`

// A command is what the flags say.
type command struct {
	config     controller.Config
	cloud      string
	kubeconfig string
	context    string
	level      string
	format     string
	speed      float64
	aws        awscloud.Flags
	guard      guardFlags
}

// Main runs kerf-controller with the arguments that follow its name until a
// signal ends it, and returns the exit code. What it says goes to out.
func Main(args []string, out io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	c, err := parse(args, out)
	if errors.Is(err, pflag.ErrHelp) {
		return exitOK
	}
	if err == nil {
		err = c.run(ctx, out)
	}
	return report(out, err)
}

// report says why it ended.
func report(out io.Writer, err error) int {
	var usage *usageError
	var beside *controller.BesideKarpenterError
	var old *controller.OldAPIError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(out, "error %s\n      -> %s\n", usage.text, usage.fix)
		return exitUnusable
	case errors.As(err, &beside), errors.As(err, &old):
		fmt.Fprintln(out, "error", err)
		return exitUnusable
	}
	fmt.Fprintln(out, "error", err)
	return exitFailed
}

// A usageError is a flag that cannot be, with what to do about it.
type usageError struct{ text, fix string }

func (e *usageError) Error() string { return e.text }

func parse(args []string, out io.Writer) (*command, error) {
	c := &command{}
	f := pflag.NewFlagSet("kerf-controller", pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(out)
	f.Usage = func() { fmt.Fprintf(out, "%s\nFlags:\n%s", help, f.FlagUsages()) }
	f.StringVar(&c.cloud, "cloud", "", "`NAME` of the cloud: aws, or simulated for trying things out")
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "`FILE` that says how to reach the cluster (default: the cluster of this pod, else $KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&c.context, "context", "", "`NAME` of the context in it (default: the current one)")
	f.StringVar(&c.config.Region, "region", "", "`NAME` of the region (default: that of the instance, else us-east-1)")
	f.BoolVar(&c.config.LeaderElection, "leader-elect", true, "let one of several replicas work")
	f.StringVar(&c.config.LeaseNamespace, "leader-elect-namespace", "", "`NAMESPACE` of the lease (default: that of this pod)")
	f.StringVar(&c.config.MetricsAddress, "metrics-bind-address", ":8080", "`ADDRESS` of /metrics; 0 serves none")
	f.StringVar(&c.config.ProbeAddress, "health-probe-bind-address", ":8081", "`ADDRESS` of /healthz and /readyz; 0 serves none")
	f.DurationVar(&c.config.BatchIdle, "batch-idle", 100*time.Millisecond, "how long nothing may happen before it is planned")
	f.DurationVar(&c.config.BatchMax, "batch-max", time.Second, "how long events are gathered at most")
	f.Int64Var(&c.config.Steps, "steps", 1_000_000, "`N` steps of search for a cheaper plan; a million takes some tens of milliseconds")
	f.DurationVar(&c.config.StockMemory, "stock-memory", 3*time.Minute, "how long an offering without capacity is left out")
	f.DurationVar(&c.config.GPUDeadline, "gpu-deadline", 10*time.Minute, "how long the GPUs of a node may take to come up")
	s := &c.config.Settings
	f.BoolVar(&s.NodeRepair, "node-repair", false, "replace nodes whose conditions the cloud's repair policies name")
	f.BoolVar(&s.SpotToSpot, "spot-to-spot", false, "consolidate spot nodes to cheaper spot nodes")
	f.BoolVar(&s.StaticPools, "static-pools", false, "keep NodePools with spec.replicas at that number")
	f.BoolVar(&s.IgnorePreferences, "ignore-preferences", false, "plan as if pods had no preferences")
	f.BoolVar(&s.Quiet, "disable-cluster-state-observability", false, "leave out Karpenter's gauges of nodes, pods and pools: with thousands of nodes they are most of the memory")
	c.guard.add(f)
	f.StringVar(&c.level, "log-level", "info", "`LEVEL`: debug, info or error")
	f.StringVar(&c.format, "log-format", "json", "`FORMAT`: json or text")
	f.Float64Var(&c.speed, "speed", 1, "of the simulated cloud: 60 makes its minutes seconds")
	plain := flag.NewFlagSet("aws", flag.ContinueOnError)
	c.aws.Add(plain)
	f.AddGoFlagSet(plain)
	if err := f.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil, err
		}
		return nil, &usageError{err.Error(), "kerf-controller --help lists the flags"}
	}
	if f.NArg() > 0 {
		return nil, &usageError{fmt.Sprintf("kerf-controller takes no argument %q", f.Arg(0)), "kerf-controller --help lists the flags"}
	}
	return c, c.check()
}

// check refuses what the flags cannot mean.
func (c *command) check() error {
	switch c.cloud {
	case "aws":
		if err := c.aws.Check(); err != nil {
			return &usageError{err.Error(), "they are those of karpenter, and its environment variables count too: CLUSTER_NAME, INTERRUPTION_QUEUE"}
		}
	case "simulated":
	case "":
		return &usageError{"no cloud is named", "--cloud aws, or --cloud simulated for trying things out"}
	default:
		return &usageError{fmt.Sprintf("unknown cloud %q", c.cloud), "--cloud takes aws or simulated"}
	}
	if c.format != "json" && c.format != "text" {
		return &usageError{fmt.Sprintf("unknown log format %q", c.format), "--log-format takes json or text"}
	}
	if _, err := levelOf(c.level); err != nil {
		return &usageError{fmt.Sprintf("unknown log level %q", c.level), "--log-level takes debug, info or error"}
	}
	if c.config.BatchIdle > c.config.BatchMax {
		return &usageError{fmt.Sprintf("--batch-idle %s is longer than --batch-max %s", c.config.BatchIdle, c.config.BatchMax), "raise --batch-max"}
	}
	var err error
	c.config.Guard, err = c.guard.config()
	return err
}

func levelOf(name string) (slog.Level, error) {
	switch strings.ToLower(name) {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, errors.New("unknown level")
}

func (c *command) logger(out io.Writer) logr.Logger {
	level, err := levelOf(c.level)
	if err != nil {
		level = slog.LevelInfo // check has refused it
	}
	o := &slog.HandlerOptions{Level: level}
	if c.format == "text" {
		return logr.FromSlogHandler(slog.NewTextHandler(out, o))
	}
	return logr.FromSlogHandler(slog.NewJSONHandler(out, o))
}

func (c *command) run(ctx context.Context, out io.Writer) error {
	c.config.Logger, c.config.Frugal = c.logger(out), true
	log.SetLogger(c.config.Logger)
	rest, err := live.Where{Kubeconfig: c.kubeconfig, Context: c.context}.Config()
	if errors.Is(err, live.ErrNoCluster) {
		return &usageError{"no cluster is configured, and this is not a pod of one", "--kubeconfig FILE"}
	}
	if err != nil {
		return &usageError{err.Error(), "check --kubeconfig and --context"}
	}
	rest.Timeout = 0 // watches last
	c.config.REST = rest
	if c.cloud == "aws" {
		awscloud.Setup(&c.config, c.aws)
	} else {
		simulate(&c.config, c.speed)
	}
	if err := controller.Run(ctx, c.config); err != nil {
		return fmt.Errorf("kerf-controller: %w", err)
	}
	return nil
}
