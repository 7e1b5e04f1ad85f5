// Package chart renders Kerf's Helm chart as helm would, for its tests: the
// golden files under charts/kerf/testdata, what the schema refuses, and whether
// the roles allow what the programs ask of the API server.
package chart

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// A Release is where a chart is installed.
type Release struct {
	Name, Namespace string
}

// A Rendered is what a chart makes of values.
type Rendered struct {
	Text    string // the objects, by template, as one YAML file
	Objects []Object
	Notes   string // what helm prints after an installation
}

// An Object is one of the cluster's, as YAML has it.
type Object map[string]any

// Render renders the chart in a folder with values in YAML. Errors are those of
// the schema and of the templates.
func Render(dir string, values []byte, to Release) (Rendered, error) {
	c, err := loader.Load(dir)
	if err != nil {
		return Rendered{}, fmt.Errorf("load the chart: %w", err)
	}
	given, err := common.ReadValues(values)
	if err != nil {
		return Rendered{}, fmt.Errorf("read the values: %w", err)
	}
	capabilities := common.DefaultCapabilities.Copy()
	all, err := util.ToRenderValues(c, given, common.ReleaseOptions{Name: to.Name, Namespace: to.Namespace, Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return Rendered{}, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return Rendered{}, err
	}
	return assemble(files)
}

// assemble puts the files of the templates in order.
func assemble(files map[string]string) (Rendered, error) {
	var out Rendered
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		body := strings.TrimSpace(files[name])
		switch base := path.Base(name); {
		case base == "NOTES.txt":
			out.Notes = body
			continue
		case body == "" || strings.HasPrefix(base, "_"):
			continue
		}
		fmt.Fprintf(&text, "---\n# Source: %s\n%s\n", name, strings.TrimPrefix(body, "---\n"))
		for part := range strings.SplitSeq("\n"+body, "\n---") {
			var o Object
			if err := yaml.UnmarshalStrict([]byte(part), &o); err != nil {
				return Rendered{}, fmt.Errorf("%s is no YAML: %w\n%s", name, err, part)
			}
			if o != nil {
				out.Objects = append(out.Objects, o)
			}
		}
	}
	out.Text = text.String()
	return out, nil
}
