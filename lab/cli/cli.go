// Package cli is the command line of kerf-lab, which runs a real Kubernetes
// control plane with a simulated cloud and Kerf's controller until it is told to
// stop, and shows them at work.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

// Streams are what the command writes to, and where it asks for settings.
type Streams struct {
	Out, Err io.Writer
	Getenv   func(string) string
}

// Standard returns those of the process.
func Standard() Streams { return Streams{Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv} }

// A Config is what the flags say.
type Config struct {
	Dir    string   // --dir; empty for a folder that is removed at the end
	Port   int      // --port; 0 for a free one
	CRDs   []string // --crd; files
	Bare   bool     // --bare; the control plane alone
	Speed  float64  // --speed of the machines; 0 is 1
	Assets string   // $KUBEBUILDER_ASSETS
	Demo   bool     // the argument demo
}

const usage = `kerf-lab runs a real Kubernetes control plane on this machine, a simulated cloud, and Kerf's controller.

  kerf-lab                     everything in a temporary folder, gone when it stops
  kerf-lab --dir ~/lab         keep the objects there, and go on with them next time
  kerf-lab demo                watch pods that share GPUs get nodes, and the nodes go again; ends by itself

It prints the kubeconfig to use. Ctrl-C stops it. Where KUBEBUILDER_ASSETS names a folder with the programs
etcd, kube-apiserver, kube-controller-manager and kube-scheduler, those are run instead of the built-in ones.

`

// Main runs kerf-lab with the arguments that follow its name, and returns the
// exit code: 0 when it was told to stop and did, 1 otherwise.
func Main(args []string, s Streams) int {
	config, err := parse(args, s)
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		context.AfterFunc(ctx, stop) // a second Ctrl-C kills
		defer stop()
		run := Run
		if config.Demo {
			run = Demo
		}
		err = run(ctx, config, s.Out)
	}
	if err != nil {
		fmt.Fprintf(s.Err, "kerf-lab: %v\n", err)
		return 1
	}
	return 0
}

// parse reads the flags.
func parse(args []string, s Streams) (Config, error) {
	config := Config{Assets: s.Getenv("KUBEBUILDER_ASSETS")}
	flags := pflag.NewFlagSet("kerf-lab", pflag.ContinueOnError)
	flags.StringVar(&config.Dir, "dir", "", "folder for objects, certificates and logs (default: a temporary one)")
	flags.IntVar(&config.Port, "port", 0, "port of the API server on 127.0.0.1 (default: a free one)")
	flags.StringArrayVar(&config.CRDs, "crd", nil, "file with more CustomResourceDefinitions, such as EC2NodeClass; may be repeated")
	flags.BoolVar(&config.Bare, "bare", false, "run the control plane alone, without the cloud and the controller")
	flags.Float64Var(&config.Speed, "speed", 10, "how much faster than real machines the simulated ones boot")
	flags.Usage = func() { fmt.Fprint(s.Out, usage+"flags:\n"+flags.FlagUsages()) }
	if err := flags.Parse(args); err != nil {
		return config, err
	}
	config.Demo = flags.Arg(0) == "demo"
	switch {
	case flags.NArg() > 1 || flags.NArg() == 1 && !config.Demo:
		return config, fmt.Errorf("argument %q; expected demo, or flags only, see --help", flags.Arg(flags.NArg()-1))
	case config.Speed <= 0:
		return config, fmt.Errorf("--speed %v; expected a number above 0", config.Speed)
	}
	return config, nil
}
