package suite

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// smallFleets is the name under which the comparison with exact optima runs.
const smallFleets = "small fleets"

// Main runs the benchmark with the arguments of the command line and returns
// the exit code: 1 when a plan is wrong or a file cannot be written.
func Main(args []string, out, progress io.Writer) int {
	o := Options{Full: os.Getenv("BENCH_FULL") != ""}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(progress)
	f.StringVar(&o.Only, "only", "", "run the workloads whose `NAME` contains this, and write no files")
	f.IntVar(&o.Workers, "workers", 1, "nodes that Karpenter tries at once")
	f.Int64Var(&o.Steps, "steps", 0, "`BUDGET` of Kerf's solver in every workload (default: each its own)")
	if err := f.Parse(args); err != nil {
		return 1
	}
	r := Report{Machine: machine()}
	var failed error
	if o.Only == "" || strings.Contains(o.Only, "kerf plan") {
		// First, while this process is small: to Linux the peak of a child is at
		// least what its parent held when it was started.
		r.Processes, failed = processes(progress)
	}
	r.Rows = Run(progress, o)
	if strings.Contains(smallFleets, o.Only) {
		var err error
		r.Small, err = small(progress)
		failed = errors.Join(failed, err)
	}
	fmt.Fprint(out, r.Text())
	if o.Only == "" && o.Steps == 0 {
		failed = errors.Join(failed, r.save())
	}
	if failed = errors.Join(failed, r.wrong()); failed != nil {
		fmt.Fprintln(progress, failed)
		return 1
	}
	return 0
}

// wrong says how many plans break a rule.
func (r Report) wrong() error {
	n := 0
	for _, row := range r.Rows {
		if len(row.Wrong) > 0 {
			n++
		}
	}
	if n == 0 && len(r.Small.Wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%d plans of workloads break a rule, and %d times one of a small fleet: %w", n, len(r.Small.Wrong), errors.Join(r.Small.Wrong...))
}

// save writes the files that the project keeps.
func (r Report) save() error {
	return errors.Join(
		write(filepath.Join("bench", "RESULTS.md"), r.Markdown()),
		write(filepath.Join("docs", "cost.svg"), r.Picture()),
	)
}

func write(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("make the folder of %s: %w", name, err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
