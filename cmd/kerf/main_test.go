package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write what commands print into the scripts' files")

// commands are what scripts may call beside testscript's own.
var commands = map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "says": says}

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"kerf": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Cmds:          commands,
		Setup:         folders,
		Condition:     conditions,
	})
}

// seeds is where the manifests of the first users lie beside a checkout.
const seeds = "../../../shared/seeds/manifests"

// folders names the examples, and the seeds where there are any.
func folders(e *testscript.Env) error {
	for name, path := range map[string]string{"EXAMPLES": "../../examples", "SEEDS": seeds} {
		full, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		e.Setenv(name, full)
	}
	return nil
}

func conditions(name string) (bool, error) {
	if name != "seeds" {
		return false, fmt.Errorf("unknown condition %q", name)
	}
	_, err := os.Stat(seeds)
	return err == nil, nil
}

// exits runs a command and checks its exit code: "exits 2 kerf plan -f a.yaml".
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code command [args...]")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("exit code %q: %v", args[0], err)
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		failed := (*exec.ExitError)(nil)
		if !errors.As(err, &failed) {
			ts.Fatalf("%v", err)
		}
		got = failed.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// says looks for a pattern in what was printed last as a reader takes it, lines
// that were broken put together again: "says 'no GPU would register'".
func says(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: says pattern")
	}
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	text := strings.Join(strings.Fields(ts.ReadFile("stdout")), " ")
	if pattern.MatchString(text) == neg {
		ts.Fatalf("match for %q: %v, want %v, in %s", args[0], neg, !neg, text)
	}
}
