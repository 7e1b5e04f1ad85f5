package cli

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/kerfdev/kerf/internal/render"
)

// A buffer gathers output, so that a failure half way leaves nothing behind.
type buffer struct{ bytes.Buffer }

// got returns what was gathered unless that failed.
func (b *buffer) got(err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// encode writes a document as JSON or YAML.
func encode(output string, doc any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(doc); err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	if output == "yaml" {
		return render.YAML(b.Bytes())
	}
	return b.Bytes(), nil
}
