package cli

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/kerfdev/kerf/internal/catalog"
)

func (a *app) versionCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "version",
		Short: "the version of kerf and of its price book",
		Long:  "  kerf version",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := oneOf("output", output, textOutputs); err != nil {
				return err
			}
			return a.version(output)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "table", "`FORMAT`: table, json or yaml")
	complete(c, "output", textOutputs)
	return c
}

func (a *app) version(output string) error {
	book, err := catalog.Load("us-east-1")
	if err != nil {
		return err
	}
	name := buildVersion()
	if output == "table" {
		_, err := fmt.Fprintf(a.Out, "kerf %s\nprices %s\n", name, book.PriceBasis)
		return err
	}
	text, err := encode(output, struct {
		Version string `json:"version"`
		Kerf    string `json:"kerf"`
		Prices  string `json:"prices"`
	}{"kerf.dev/version/v1", name, book.PriceBasis})
	if err != nil {
		return err
	}
	return a.write("", text)
}

// buildVersion is what the Go tool recorded: a tag, or the commit.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
