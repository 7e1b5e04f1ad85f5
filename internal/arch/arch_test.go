// Package arch checks the shape of the module: which package may import which,
// which may touch the world, who may use a heavy dependency, and that each
// package says what it is for.
package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kerfdev/kerf/"

// floors lists the packages from the ground up. A package may import only
// packages on floors below its own; packages on one floor are strangers.
var floors = [][]string{
	{"api/manifest"},
	{"api/deviceconfig"},
	{"internal/model", "internal/lp"},
	{"internal/constraint", "internal/gpu", "internal/guard", "internal/knapsack"},
	{"internal/plan", "internal/catalog", "internal/explain", "internal/policy", "internal/rule"},
	{"internal/solve"},
	{
		"internal/source", "internal/workload", "internal/nodepool", "internal/install", "internal/live", "internal/nvml",
		"internal/deviceplugin", "internal/deviceplugin/fakekubelet", "internal/cdi", "internal/cdi/driver", "internal/glpk", "internal/effort",
	},
	{
		"internal/intake", "internal/overlay", "internal/review", "internal/nodeconfig",
		"internal/nvml/driver", "internal/health", "internal/discovery", "internal/mps",
	},
	{"internal/render", "internal/cloud", "internal/admission"},
	{"internal/hands", "internal/rival"},
	{"internal/controller"},
	{"internal/cli", "internal/compare", "internal/node"},
	{"cmd/kerf", "cmd/kerf-compare", "cmd/kerf-node", "bench/suite"},
	{"bench"},
}

// pure is the number of floors, from the ground, that reach the standard
// library only, and of it nothing that touches the world.
const pure = 6

var impure = map[string]string{
	"os": "reads the machine", "net": "reaches the network", "net/http": "reaches the network",
	"os/exec": "starts processes", "math/rand": "use a seeded math/rand/v2 source passed in",
	"log": "return a value or a trace event", "log/slog": "return a value or a trace event",
	"sync": "the core starts no goroutines that outlive a call", "context": "the core takes values",
}

// onCluster are the packages that work on a cluster through controller-runtime.
var onCluster = []string{"internal/cloud", "internal/hands", "internal/controller", "internal/admission", "internal/rival"}

// owners names the packages that may import a heavy dependency; everyone else
// asks them.
var owners = map[string][]string{
	"sigs.k8s.io/karpenter":          onCluster,
	"sigs.k8s.io/controller-runtime": onCluster,
	"k8s.io/client-go":               append([]string{"internal/live", "internal/node"}, onCluster...),
	"k8s.io/apiextensions-apiserver": {"internal/nodepool"},
	"k8s.io/api":                     append([]string{"internal/workload"}, onCluster...),
	"github.com/NVIDIA/go-nvml":      {"internal/nvml/driver", "internal/cdi/driver"},
	"github.com/NVIDIA/go-nvlib":     {"internal/nvml/driver"},
	"github.com/hashicorp/hcl":       {"internal/source"},
	"go.yaml.in/yaml":                {"internal/source", "internal/nodepool", "internal/nvml"},
	"github.com/spf13/cobra":         {"internal/cli", "internal/compare", "internal/node"},
}

type pkg struct {
	name    string // path below the module root
	doc     bool
	imports map[string]bool
}

// load reads every non-test file itself rather than asking the go command: the
// test cache notices files a test opens, not files a child process opens.
func load(t *testing.T) []*pkg {
	t.Helper()
	byDir := map[string]*pkg{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skip(root, path, d.Name())
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		return byDir0(byDir, root, path)
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.SortedFunc(maps.Values(byDir), func(a, b *pkg) int { return strings.Compare(a.name, b.name) })
}

// skip leaves out test data, hidden folders and other modules.
func skip(root, path, name string) error {
	if name == "testdata" || (strings.HasPrefix(name, ".") && name != "..") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != root {
		return filepath.SkipDir
	}
	return nil
}

// byDir0 adds what one file imports to its package's entry.
func byDir0(byDir map[string]*pkg, root, path string) error {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(root, filepath.Dir(path))
	if err != nil {
		return err
	}
	p := byDir[rel]
	if p == nil {
		p = &pkg{name: filepath.ToSlash(rel), imports: map[string]bool{}}
		byDir[rel] = p
	}
	p.doc = p.doc || f.Doc != nil
	for _, im := range f.Imports {
		p.imports[strings.Trim(im.Path.Value, `"`)] = true
	}
	return nil
}

func TestFloors(t *testing.T) {
	floor := map[string]int{}
	for i, f := range floors {
		for _, p := range f {
			floor[p] = i
		}
	}
	seen := map[string]bool{}
	for _, p := range load(t) {
		here, ok := floor[p.name]
		if !ok {
			t.Errorf("%s is on no floor: add it to the table", p.name)
			continue
		}
		seen[p.name] = true
		for imp := range p.imports {
			to, ours := strings.CutPrefix(imp, module)
			if ours && floor[to] >= here {
				t.Errorf("%s (floor %d) must not import %s (floor %d)", p.name, here, to, floor[to])
			}
		}
	}
	for name := range floor {
		if !seen[name] {
			t.Errorf("%s is in the table but not in the module", name)
		}
	}
}

func TestPure(t *testing.T) {
	want := map[string]bool{}
	for _, f := range floors[:pure] {
		for _, p := range f {
			want[p] = true
		}
	}
	for _, p := range load(t) {
		if !want[p.name] {
			continue
		}
		for imp := range p.imports {
			if why, bad := impure[imp]; bad {
				t.Errorf("%s is pure and must not import %q: %s", p.name, imp, why)
			}
			if strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") && !strings.HasPrefix(imp, module) {
				t.Errorf("%s is pure and must not import %q, a third-party package", p.name, imp)
			}
		}
	}
}

func TestOwners(t *testing.T) {
	for _, p := range load(t) {
		for imp := range p.imports {
			for dep, who := range owners {
				if (imp == dep || strings.HasPrefix(imp, dep+"/")) && !slices.Contains(who, p.name) {
					t.Errorf("%s must not import %s: only %s may", p.name, imp, strings.Join(who, ", "))
				}
			}
		}
	}
}

func TestPackageDocs(t *testing.T) {
	for _, p := range load(t) {
		if !p.doc {
			t.Errorf("%s has no package comment", p.name)
		}
	}
}
