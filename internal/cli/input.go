package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/intake"
	"github.com/kerfdev/kerf/internal/live"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/render"
	"github.com/kerfdev/kerf/internal/source"
)

// input is what the commands that read manifests have in common.
type input struct {
	files        []string
	cluster      cluster
	region       string
	prices       string
	types        string
	noToleration bool
	guard        string
}

func (in *input) fileFlag(f *pflag.FlagSet) {
	f.StringArrayVarP(&in.files, "file", "f", nil, "file or folder `PATH` to read, - for standard input; may be repeated")
}

func (in *input) bookFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&in.region, "region", "", "`NAME` of the price book's region (default: the one that the files name, else us-east-1)")
	f.StringVar(&in.prices, "prices", "", "`FILE` of your own prices, CSV (region,type,capacityType,zone,price) or JSON")
	f.StringVar(&in.types, "instance-types", "", "`FILE` of instance types as aws ec2 describe-instance-types prints them")
	_ = c.RegisterFlagCompletionFunc("region", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return catalog.Regions(), cobra.ShellCompDirectiveNoFileComp
	})
}

func (in *input) tolerationFlag(f *pflag.FlagSet) {
	f.BoolVar(&in.noToleration, "no-extended-resource-toleration", false, "the cluster does not add tolerations to pods that ask for GPUs")
}

// guarding are the values of --guard.
var guarding = []string{"auto", "on", "off"}

func (in *input) guardFlag(c *cobra.Command) {
	c.Flags().StringVar(&in.guard, "guard", "auto", "leave out pods that kerf's guard refuses: `WHEN` on, off, or auto, where the input shows that the guard is enforced")
	complete(c, "guard", guarding)
}

// load reads the files and makes a Snapshot of them.
func (a *app) load(in input, p *progress) (intake.Loaded, error) {
	if in.guard != "" {
		if err := oneOf("guard", in.guard, guarding); err != nil {
			return intake.Loaded{}, err
		}
	}
	objects, files, err := a.sources(in, p)
	if err != nil {
		return intake.Loaded{}, err
	}
	makeRoom(files)
	p.step("reading %d files", len(files))
	o, err := in.book()
	if err != nil {
		return intake.Loaded{}, err
	}
	o.Guard = intake.GuardMode(strings.TrimPrefix(in.guard, "auto"))
	o.Now = objects.Taken
	loaded, err := intake.LoadOver(objects.Documents(), files, o)
	if err != nil {
		return intake.Loaded{}, unusable(files, err)
	}
	loaded.Notes = append(loaded.Notes, objects.Notes...)
	return loaded, nil
}

// sources reads the files, the cluster, or both.
func (a *app) sources(in input, p *progress) (objects live.Objects, files []source.File, err error) {
	if in.cluster.wanted(in.files) {
		if objects, err = a.readCluster(in.cluster, p); err != nil || len(in.files) == 0 {
			return objects, nil, err
		}
	}
	files, err = a.read(in)
	return objects, files, err
}

// book are the options that choose prices and types.
func (in *input) book() (intake.Options, error) {
	prices, err := own("--prices", in.prices)
	if err != nil {
		return intake.Options{}, err
	}
	types, err := own("--instance-types", in.types)
	return intake.Options{Region: in.region, Prices: prices, InstanceTypes: types, NoExtendedResourceToleration: in.noToleration}, err
}

// unusable says why nothing could be made of the files: when not one object was
// found, the first mistake in them.
func unusable(files []source.File, err error) error {
	docs, notes := source.ParseAll(files)
	if len(docs) > 0 {
		return err
	}
	for _, n := range render.Sorted(notes) {
		if n.Severity == model.Error {
			return failure{n}
		}
	}
	return fail("nothing-found", "name files with NodePools, workloads or device-plugin configs", "%v", err)
}

// read opens what -f names.
func (a *app) read(in input) ([]source.File, error) {
	if len(in.files) == 0 {
		return nil, fail("no-input", "name files or folders: -f infra/ -f apps/, or -f - for standard input", "nothing to read")
	}
	files, err := source.Read(in.files, a.In)
	if err != nil {
		return nil, err
	}
	return files, nil
}

// own reads a file of the user's own figures.
func own(flag, name string) (source.File, error) {
	if name == "" {
		return source.File{}, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return source.File{}, fail("unreadable", "check the path given to "+flag, "%s: %v", flag, err)
	}
	return source.File{Name: name, Data: data}, nil
}
