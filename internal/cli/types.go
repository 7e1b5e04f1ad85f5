package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/intake"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/render"
)

type typesOptions struct {
	input
	gpu      bool
	families []string
	gpuNames []string
	output   string
}

func (a *app) typesCommand() *cobra.Command {
	var o typesOptions
	c := &cobra.Command{
		Use:   "instance-types",
		Short: "browse the catalogue, the cheapest GPU first",
		Long: `  kerf instance-types --gpu
  kerf instance-types --gpu-name a10g,l4 --region eu-west-1
  kerf instance-types --family g4dn -o json
  kerf instance-types --gpu --prices prices.csv

Lists what a region sells with its prices, or with yours; ~ marks an estimate.`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return a.types(o) },
	}
	f := c.Flags()
	f.BoolVar(&o.gpu, "gpu", false, "types with GPUs only")
	f.StringSliceVar(&o.families, "family", nil, "`FAMILIES`: g5,g6")
	f.StringSliceVar(&o.gpuNames, "gpu-name", nil, "GPU `MODELS`: t4,a10g")
	f.StringVarP(&o.output, "output", "o", "table", "`FORMAT`: table, json or yaml")
	complete(c, "output", textOutputs)
	o.bookFlags(c)
	c.Flags().Lookup("region").Usage = "`NAME` of the price book's region (default: " + intake.DefaultRegion + ")"
	return c
}

func (a *app) types(o typesOptions) error {
	if err := oneOf("output", o.output, textOutputs); err != nil {
		return err
	}
	own, err := o.book()
	if err != nil {
		return err
	}
	book, notes, err := intake.Book(own)
	if err != nil {
		return err
	}
	list := render.Listing{Region: book.Region, Basis: book.PriceBasis}
	for _, t := range book.Types {
		if o.matches(t) {
			list.Types = append(list.Types, t)
		}
	}
	if len(list.Types) == 0 {
		return o.nothing(book)
	}
	if o.output != "table" {
		text, err := encode(o.output, render.TypesJSON(list))
		if err != nil {
			return err
		}
		return a.write("", text)
	}
	if err := render.Types(a.Out, list, a.screen(a.Out, false)); err != nil || len(notes) == 0 {
		return err
	}
	return render.Notes(a.Err, notes, a.screen(a.Err, false))
}

// matches says whether a type is sold and asked for.
func (o typesOptions) matches(t model.InstanceType) bool {
	if len(t.Offerings) == 0 || o.gpu && len(t.GPUs) == 0 {
		return false
	}
	if len(o.families) > 0 && !slices.ContainsFunc(o.families, func(f string) bool { return strings.EqualFold(f, family(t)) }) {
		return false
	}
	return len(o.gpuNames) == 0 || slices.ContainsFunc(t.GPUs, func(g model.GPU) bool {
		return slices.ContainsFunc(o.gpuNames, func(n string) bool { return strings.EqualFold(n, g.Model) })
	})
}

// family is what stands before the dot of an AWS type, or what the cloud calls it.
func family(t model.InstanceType) string {
	for _, key := range []string{"karpenter.k8s.aws/instance-family", "karpenter.k8s.gcp/instance-family", "karpenter.azure.com/sku-family", "karpenter.k8s.alibabacloud/instance-family"} {
		if v := t.Labels[key]; v != "" {
			return v
		}
	}
	before, _, _ := strings.Cut(t.Name, ".")
	return before
}

// nothing says which word matched nothing, and what is near it.
func (o typesOptions) nothing(book catalog.Book) error {
	var families, models []string
	for _, t := range book.Types {
		if len(t.Offerings) == 0 {
			continue
		}
		families = append(families, family(t))
		for _, g := range t.GPUs {
			models = append(models, g.Model)
		}
	}
	for _, x := range []struct {
		flag   string
		wanted []string
		known  []string
	}{{"family", o.families, families}, {"gpu-name", o.gpuNames, models}} {
		slices.Sort(x.known)
		known := slices.Compact(x.known)
		for _, w := range x.wanted {
			if slices.Contains(known, strings.ToLower(w)) {
				continue
			}
			fix := "known: " + strings.Join(known[:min(12, len(known))], ", ")
			if near := nearest(w, known); near != "" {
				fix = "did you mean " + near + "?"
			}
			return fail("no-types", fix, "--%s %s: %s sells nothing of that name", x.flag, w, book.Region)
		}
	}
	return fail("no-types", "drop one of the filters", "no type of %s matches all the filters", book.Region)
}
