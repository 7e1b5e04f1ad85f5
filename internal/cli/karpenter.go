package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kerfdev/kerf/internal/overlay"
	"github.com/kerfdev/kerf/internal/render"
)

// comparer is the program behind kerf compare. It holds Karpenter's scheduler,
// which is far larger than Kerf, and is built and started only when asked for.
const comparer = "kerf-compare"

func (a *app) compareCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "compare -f PATH...",
		Short:              "the same files planned by Karpenter's own scheduler, side by side",
		DisableFlagParsing: true, // kerf-compare has its own
		RunE:               func(_ *cobra.Command, args []string) error { return a.compare(args) },
	}
}

func (a *app) compare(args []string) error {
	path, err := findComparer()
	if err != nil {
		return fail("no-"+comparer, "make build puts it beside kerf", "kerf compare needs the program %s, which is neither beside kerf nor on PATH", comparer)
	}
	c := exec.Command(path, args...)
	c.Stdin, c.Stdout, c.Stderr = a.In, a.Out, a.Err
	var exit *exec.ExitError
	if err := c.Run(); errors.As(err, &exit) {
		a.code = exit.ExitCode()
	} else if err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}

// findComparer looks beside the running program first, then on PATH.
func findComparer() (string, error) {
	if self, err := os.Executable(); err == nil {
		if path := filepath.Join(filepath.Dir(self), comparer); usable(path) {
			return path, nil
		}
	}
	return exec.LookPath(comparer)
}

func usable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

func (a *app) overlayCommand() *cobra.Command {
	var in input
	c := &cobra.Command{
		Use:   "overlay -f PATH...",
		Short: "NodeOverlays that tell Karpenter what your nodes will advertise",
		Long: `  kerf overlay -f infra/ > overlays.yaml

Karpenter counts physical GPUs. These NodeOverlays (karpenter.sh/v1alpha1, behind
the feature gate NodeOverlay) make it count the slices that the device configs of
your pools give. Written to standard output; notes go to standard error.`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return a.overlay(in) },
	}
	in.fileFlag(c.Flags())
	in.bookFlags(c)
	return c
}

func (a *app) overlay(in input) error {
	p := a.newProgress("reading")
	defer p.done()
	loaded, err := a.load(in, p)
	if err != nil {
		return err
	}
	overlays, notes := overlay.For(loaded.Snapshot)
	p.done()
	if err := a.write("", overlay.YAML(overlays)); err != nil {
		return err
	}
	if len(notes) == 0 {
		return nil
	}
	return render.Notes(a.Err, notes, a.screen(a.Err, false))
}
