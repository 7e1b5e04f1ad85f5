// Package cli is the kerf command line: it reads files, calls the packages that
// do the work, and has internal/render show what came of it. It decides nothing
// but the exit code: 0 when all is well, 2 when something was not placed or is
// wrong in what was checked, 1 when the input cannot be used.
package cli

import (
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/kerfdev/kerf/internal/source"
)

// Exit codes.
const (
	exitOK       = 0
	exitUnusable = 1 // nothing could be worked out
	exitFindings = 2 // worked out, and not all is well
)

// Streams are what a command reads and writes. Out and Err may be terminals.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
}

// An app is one run of the command line.
type app struct {
	Streams
	code int
}

// Main runs kerf with the arguments that follow its name and returns the exit code.
func Main(args []string, s Streams) int {
	a := &app{Streams: s}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	if err := root.Execute(); err != nil {
		a.report(err, wantsJSON(args))
		return exitUnusable
	}
	return a.code
}

// memory is what the process should stay below: reading a large dump leaves
// much garbage, which is collected sooner then. Input that is larger than
// memory/perByte may take perByte times its size, since collecting more often
// than that costs more time than all the rest.
const (
	memory  = 160 << 20
	perByte = 4
)

// Standard returns the streams of the process, and holds its memory down unless
// GOMEMLIMIT says how.
func Standard() Streams {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memory)
	}
	return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}
}

// makeRoom raises the limit that Standard set where the input needs it.
func makeRoom(files []source.File) {
	size := int64(0)
	for _, f := range files {
		size += int64(len(f.Data))
	}
	if debug.SetMemoryLimit(-1) == memory {
		debug.SetMemoryLimit(max(memory, perByte*size))
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "kerf",
		Short: "the right GPU nodes, cut to size",
		Long: `  kerf plan -f infra/ -f apps/

Kerf reads the manifests that you have (Karpenter NodePools and Provisioners of
every version, NVIDIA device-plugin configs, Helm values, Terraform, workloads)
and says which nodes to launch, how their GPUs are cut, what goes where, what it
costs, and for every pod that fits nowhere why. It changes nothing.`,
		Args:              noCommand,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(a.planCommand(), a.explainCommand(), a.snapshotCommand(), a.lintCommand(), a.guardCommand(), a.migrateCommand(), a.typesCommand(), a.compareCommand(), a.overlayCommand(), a.versionCommand())
	root.SetUsageTemplate(usage)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Short = "a completion script for your shell"
		}
	}
	return root
}

// usage is cobra's template, with the flags of a command in one block and
// nothing that stands in the text above already.
const usage = `Usage:{{if and .Runnable .HasParent}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

"{{.CommandPath}} [command] --help" says more about a command{{end}}
`
