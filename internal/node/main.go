// Package node is the kerf-node program: the agent that serves a node's GPUs to
// its kubelet (Serve), and commands that say offline what it would do. It wires
// the packages below it together and decides nothing about a GPU itself.
package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kerfdev/kerf/internal/nvml"
	"github.com/kerfdev/kerf/internal/nvml/driver"
)

// Exit codes, those of kerf.
const (
	exitOK       = 0
	exitUnusable = 1 // nothing could be worked out, or the agent could not go on
	exitFindings = 2 // worked out, and something is wrong in what was checked
)

// Streams are what a command reads and writes.
type Streams struct {
	Out, Err io.Writer
	Env      func(string) (string, bool)
}

// Standard returns the streams of the process.
func Standard() Streams { return Streams{Out: os.Stdout, Err: os.Stderr, Env: os.LookupEnv} }

// An app is one run of the command line.
type app struct {
	Streams
	code      int
	inventory string // file or recording; "" = the machine's own driver
	root      string // of the driver, as this process sees it
	output    string
}

// Main runs kerf-node with the arguments that follow its name and returns the
// exit code.
func Main(args []string, s Streams) int {
	a := &app{Streams: s}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	if err := root.Execute(); err != nil {
		a.report(err)
		return exitUnusable
	}
	return a.code
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "kerf-node",
		Short: "serve a node's GPUs to its kubelet",
		Long: `  kerf-node config check shared.yaml --inventory a100

kerf-node serves a node's NVIDIA GPUs to its kubelet, labels the node and keeps
an eye on its GPUs. The other commands say what it would do; they change nothing
and need no cluster.`,
		Args:              cobra.NoArgs,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	config := &cobra.Command{Use: "config", Short: "device configs", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	config.AddCommand(a.checkCommand())
	root.AddCommand(a.serveCommand(), a.inventoryCommand(), config, a.labelsCommand(), a.versionCommand())
	return root
}

// of adds the flags by which a command is told of which GPUs it is to speak.
func (a *app) of(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&a.inventory, "inventory", "", "speak of the GPUs of this inventory, a file or one of "+strings.Join(nvml.Recordings(), ", ")+" (default: those of this machine)")
	root, _ := a.Env("DRIVER_ROOT_CTR_PATH")
	if root == "" {
		root = "/driver-root"
	}
	c.Flags().StringVar(&a.root, "driver-root-ctr-path", root, "root of the driver in this container, below which libnvidia-ml is looked for (DRIVER_ROOT_CTR_PATH)")
	return c
}

// outputs adds the flag that chooses a form; the first one is the default.
func (a *app) outputs(c *cobra.Command, forms ...string) *cobra.Command {
	form := c.Flags().StringP("output", "o", forms[0], strings.Join(forms, " or "))
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if !slices.Contains(forms, *form) {
			return fmt.Errorf("unknown output %q: --output takes %s", *form, strings.Join(forms, ", "))
		}
		a.output = *form
		return run(c, args)
	}
	return c
}

// library opens what the flags name: a recorded inventory, or the driver.
func (a *app) library() (nvml.Library, error) {
	if a.inventory == "" {
		lib, err := driver.Open(driver.Config{Root: a.root})
		if err != nil {
			return nil, fmt.Errorf("%w; for a machine without GPUs, name an inventory with --inventory", err)
		}
		return lib, nil
	}
	inv, err := nvml.Load(a.inventory)
	if err != nil {
		return nil, err
	}
	return nvml.NewRecorded(inv), nil
}

// read takes an inventory of what the flags name, with its links when asked.
func (a *app) read(c *cobra.Command, links bool) (inv nvml.Inventory, err error) {
	lib, err := a.library()
	if err != nil {
		return nvml.Inventory{}, err
	}
	defer func() { err = errors.Join(err, lib.Close()) }()
	if inv, err = lib.Inventory(c.Context()); err != nil || !links {
		return inv, err
	}
	inv.Links, err = lib.Links(c.Context())
	return inv, err
}

// report writes an error to standard error, or as JSON where the results would
// have gone.
func (a *app) report(err error) {
	if a.output == "json" {
		var doc struct {
			Version string `json:"version"`
			Error   struct {
				Severity string `json:"severity"`
				Text     string `json:"text"`
			} `json:"error"`
		}
		doc.Version, doc.Error.Severity, doc.Error.Text = "kerf.dev/error/v1", "error", err.Error()
		_ = a.json(doc) // else there is nobody to tell
		return
	}
	fmt.Fprintf(a.Err, "error %v\n", err)
}

func (a *app) json(doc any) error {
	e := json.NewEncoder(a.Out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(doc)
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "the version of kerf-node", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			version := "(devel)"
			if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
				version = info.Main.Version
			}
			_, err := fmt.Fprintln(a.Out, "kerf-node", version)
			return err
		},
	}
}
