package nodeconfig

import (
	"fmt"
	"strings"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/source"
)

// An InvalidError says what is wrong with a config, all of it.
type InvalidError struct {
	File  string
	Lines []string // "file:line: field: what; fix"
}

func (e *InvalidError) Error() string {
	if len(e.Lines) == 1 {
		return e.Lines[0]
	}
	return fmt.Sprintf("%s has %d errors:\n  %s", e.File, len(e.Lines), strings.Join(e.Lines, "\n  "))
}

// Decode reads one config. What NVIDIA's plugin refuses, ignores in silence or
// reads twice is an error, or a warning when lenient; what only NVIDIA's plugin
// objects to (per-device entries, renames, one replica) is neither. An error is
// an *InvalidError.
func Decode(file string, data []byte, lenient bool) (deviceconfig.Config, []string, error) {
	root, notes := source.Nested(&manifest.Node{Kind: manifest.String, Text: string(data), Line: 1, TextLine: 1})
	bad := &InvalidError{File: file}
	var warnings []string
	for _, n := range notes {
		line := at(file, n.Place.Line, "", n.Text, n.Fix)
		if n.Severity == model.Error {
			bad.Lines = append(bad.Lines, line)
			continue
		}
		warnings = append(warnings, line)
	}
	if len(bad.Lines) > 0 {
		return deviceconfig.Config{}, warnings, bad // it is not YAML, so it means nothing
	}
	cfg, problems := deviceconfig.Decode(root)
	for _, p := range problems {
		line := at(file, p.Line, p.Field, p.Text, p.Fix)
		switch {
		case p.Upstream:
		case lenient || (p.Warning && !p.Strict):
			warnings = append(warnings, line)
		default:
			bad.Lines = append(bad.Lines, line)
		}
	}
	if len(bad.Lines) > 0 {
		return deviceconfig.Config{}, warnings, bad
	}
	return cfg, warnings, nil
}

// at writes one problem with its place.
func at(file string, line int, field, text, fix string) string {
	out := fmt.Sprintf("%s:%d: ", file, line)
	if field != "" {
		out += field + ": "
	}
	out += text
	if fix != "" {
		out += "; " + fix
	}
	return out
}
