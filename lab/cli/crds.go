package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// readCRDs reads files of one or more CustomResourceDefinitions each.
func readCRDs(files []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		crds, err := readFile(file)
		if err != nil {
			return nil, fmt.Errorf("--crd %s: %w", file, err)
		}
		all = append(all, crds...)
	}
	return all, nil
}

func readFile(file string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var crds []*apiextensionsv1.CustomResourceDefinition
	for d := yaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := d.Decode(crd); errors.Is(err, io.EOF) {
			return crds, nil
		} else if err != nil {
			return nil, fmt.Errorf("document %d: %w", len(crds)+1, err)
		}
		if crd.APIVersion == "" && crd.Kind == "" && crd.Name == "" { // nothing between two ---
			continue
		}
		if crd.APIVersion != "apiextensions.k8s.io/v1" || crd.Kind != "CustomResourceDefinition" {
			return nil, fmt.Errorf("document %d: %s %s; expected apiextensions.k8s.io/v1 CustomResourceDefinition", len(crds)+1, crd.APIVersion, crd.Kind)
		}
		crds = append(crds, crd)
	}
}
