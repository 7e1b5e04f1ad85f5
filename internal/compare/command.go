package compare

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kerfdev/kerf/internal/intake"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/render"
	"github.com/kerfdev/kerf/internal/rival"
	"github.com/kerfdev/kerf/internal/source"
)

// Exit codes, as those of kerf plan.
const (
	exitOK       = 0
	exitUnusable = 1 // nothing could be worked out
	exitFindings = 2 // kerf does not place every pod
)

const usage = `  kerf compare -f infra/ -f apps/
  kerf compare -f infra/ -f apps/ --node-overlay
  kubectl get nodes,pods,nodepools -A -o yaml | kerf compare -f -

Plans the same files with Kerf and with the scheduler of Karpenter %s, run
here as a library, and shows both plans side by side. Karpenter's is priced at
the cheapest offering that each of its nodes leaves open, which is its best case.
Exit code: 0 kerf places all, 2 something not placed, 1 unusable input.

Usage:
  kerf compare -f PATH...

Flags:
%s`

// request is what the command line asks.
type request struct {
	Options
	files                 []string
	region, prices, types string
	noToleration          bool
	output                string
}

func (r *request) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("kerf compare", pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	f.StringArrayVarP(&r.files, "file", "f", nil, "file or folder `PATH` to read, - for standard input; may be repeated")
	f.StringVarP(&r.output, "output", "o", "table", "`FORMAT`: table or json")
	f.BoolVar(&r.NodeOverlay, "node-overlay", false, "give Karpenter the NodeOverlays that kerf overlay writes")
	f.DurationVar(&r.Limit, "limit", 0, "`TIME` after which Karpenter's search ends; its own is 1m (default: none)")
	f.StringVar(&r.region, "region", "", "`NAME` of the price book's region (default: the one that the files name, else us-east-1)")
	f.StringVar(&r.prices, "prices", "", "`FILE` of your own prices, CSV (region,type,capacityType,zone,price) or JSON")
	f.StringVar(&r.types, "instance-types", "", "`FILE` of instance types as aws ec2 describe-instance-types prints them")
	f.BoolVar(&r.noToleration, "no-extended-resource-toleration", false, "the cluster does not add tolerations to pods that ask for GPUs")
	return f
}

// Main runs the command with its arguments and returns the exit code.
func Main(args []string, in io.Reader, out, errs io.Writer) int {
	var r request
	f := r.flags()
	err := f.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(out, usage, rival.Version, f.FlagUsages())
		return exitOK
	case err != nil:
		err = trouble("flag", "kerf compare --help lists the flags", "kerf compare: %v", err)
	case f.NArg() > 0:
		err = trouble("unexpected-argument", "did you mean kerf compare -f "+f.Arg(0)+"?", "kerf compare takes no argument %q", f.Arg(0))
	case r.output != "table" && r.output != "json":
		err = trouble("flag", "--output takes table, json", "--output: unknown value %q", r.output)
	}
	if err != nil {
		return report(err, r.output, out, errs)
	}
	code, err := r.run(in, out, errs)
	if err != nil {
		return report(err, r.output, out, errs)
	}
	return code
}

func (r *request) run(in io.Reader, out, errs io.Writer) (int, error) {
	s, err := r.load(in)
	if err != nil {
		return exitUnusable, err
	}
	done := patience(errs, len(s.Pods))
	c, err := Of(s, r.Options)
	done()
	if err != nil {
		return exitUnusable, err
	}
	d := c.Document()
	text := d.Table()
	if r.output == "json" {
		if text, err = encode(d); err != nil {
			return exitUnusable, err
		}
	}
	if _, err := out.Write(text); err != nil {
		return exitUnusable, fmt.Errorf("write to standard output: %w", err)
	}
	if d.Kerf.Unplaced > 0 {
		return exitFindings, nil
	}
	return exitOK, nil
}

// load reads the files as kerf plan does.
func (r *request) load(in io.Reader) (model.Snapshot, error) {
	if len(r.files) == 0 {
		return model.Snapshot{}, trouble("no-input", "name files or folders: -f infra/ -f apps/, or -f - for standard input", "nothing to read")
	}
	files, err := source.Read(r.files, in)
	if err != nil {
		return model.Snapshot{}, err
	}
	o := intake.Options{Region: r.region, NoExtendedResourceToleration: r.noToleration}
	if o.Prices, err = own("--prices", r.prices); err != nil {
		return model.Snapshot{}, err
	}
	if o.InstanceTypes, err = own("--instance-types", r.types); err != nil {
		return model.Snapshot{}, err
	}
	loaded, err := intake.Load(files, o)
	return loaded.Snapshot, err
}

// own reads a file of the user's own figures.
func own(flag, name string) (source.File, error) {
	if name == "" {
		return source.File{}, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return source.File{}, trouble("unreadable", "check the path given to "+flag, "%s: %v", flag, err)
	}
	return source.File{Name: name, Data: data}, nil
}

// patience tells a person who watches that Karpenter takes its time.
func patience(w io.Writer, pods int) (done func()) {
	f, ok := w.(*os.File)
	if !ok {
		return func() {}
	}
	if about, err := f.Stat(); err != nil || about.Mode()&os.ModeCharDevice == 0 {
		return func() {}
	}
	t := time.AfterFunc(3*time.Second, func() {
		fmt.Fprintf(f, "karpenter's scheduler is at work on %d pods; --limit 1m ends it as karpenter itself would\n", pods)
	})
	return func() { t.Stop() }
}

// failure is an error with the next step.
type failure struct{ note model.Note }

func (f failure) Error() string { return f.note.Text }

func trouble(code, fix, format string, args ...any) error {
	return failure{model.Note{Code: code, Severity: model.Error, Text: fmt.Sprintf(format, args...), Fix: fix}}
}

// report writes an error where the caller looks for it.
func report(err error, output string, out, errs io.Writer) int {
	note := model.Note{Code: "failed", Severity: model.Error, Text: strings.TrimSpace(err.Error())}
	if f := (failure{}); errors.As(err, &f) {
		note = f.note
	} else if f := (*intake.FileError)(nil); errors.As(err, &f) {
		note = f.Note()
	}
	if output == "json" {
		if text, err := encode(render.ErrorJSON(note)); err == nil {
			_, _ = out.Write(text) // where standard output is gone there is nobody to tell
		}
		return exitUnusable
	}
	_ = render.Failure(errs, note, render.Options{})
	return exitUnusable
}
