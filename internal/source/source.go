// Package source turns the files that people have into manifest documents:
// YAML and JSON of any number of objects, lists as kubectl prints them,
// Terraform files that carry manifests or Helm values, values files of the
// NVIDIA device-plugin chart, and bare device-plugin or mig-parted configs.
//
// Values mean what Kubernetes would make of them (sigs.k8s.io/yaml: YAML 1.1
// booleans, the last of a repeated key), and every value keeps its line in the
// file that the user edits, also through Terraform heredocs. What cannot be
// read is named in a note and never costs the rest of the file.
package source

import (
	"bytes"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// MaxSize is the largest file that is read, in bytes.
const MaxSize = 256 << 20

// A File is one input with the name under which messages speak of it.
type File struct {
	Name string // path as the user gave it, "-" for standard input
	Data []byte // not to be changed any more, as documents keep pieces of it
}

// Parse reads one file. It never fails as a whole: what could not be read is in
// the notes, which stand in the order of the file.
func Parse(f File) ([]manifest.Document, []model.Note) {
	return ParseAll([]File{f})
}

// ParseAll reads files that belong together, in their order. Terraform files of
// one folder see each other's locals and variables, and file() finds any of the
// files given; a file that was read in such a way is not read once more.
func ParseAll(files []File) ([]manifest.Document, []model.Note) { return parseAll(files, nil) }

// ParseHeads is ParseAll for input that may be a whole cluster: of Pods only the
// head is in Root, and Document.Tree reads the rest again.
func ParseHeads(files []File) ([]manifest.Document, []model.Note) { return parseAll(files, &heads{}) }

func parseAll(files []File, h *heads) ([]manifest.Document, []model.Note) {
	var docs []manifest.Document
	var notes []model.Note
	modules := terraformModules(files)
	used := map[string]bool{}
	perFile := make([]parsed, len(files))
	for i, f := range files {
		if m := modules[i]; m != nil {
			perFile[i] = m.resources(f.Name, used)
		}
	}
	for i, f := range files {
		if modules[i] == nil && !used[filepath.Clean(f.Name)] {
			perFile[i] = parseFile(f, h)
		}
		docs = append(docs, perFile[i].docs...)
		notes = append(notes, perFile[i].notes...)
	}
	return docs, notes
}

// parsed is what one file gave.
type parsed struct {
	docs  []manifest.Document
	notes []model.Note
	heads *heads // nil where documents are kept whole
}

// parseFile reads a YAML or JSON file.
func parseFile(f File, h *heads) parsed {
	if len(f.Data) > MaxSize {
		return parsed{notes: []model.Note{tooLarge(f, "256 MiB")}}
	}
	p := parsed{heads: h}
	var roots []*manifest.Node
	data := bytes.TrimPrefix(f.Data, []byte("\xef\xbb\xbf"))
	if looksLikeJSON(f.Name, data) {
		roots, p.notes = parseJSON(data, h)
	} else {
		roots, p.notes = parseYAML(text(data), func(line int) int { return line }, h)
	}
	for i := range p.notes {
		p.notes[i].Place.File = f.Name
	}
	for _, root := range roots {
		p.add(f.Name, "", root)
	}
	return p
}

// text is data as a string, without a copy of what may be most of a cluster.
func text(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }

// looksLikeJSON goes by the name, and without one by the first character. JSON
// in a .yaml file is YAML too, so only speed depends on it.
func looksLikeJSON(name string, data []byte) bool {
	if strings.EqualFold(filepath.Ext(name), ".json") {
		return true
	}
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	return len(trimmed) > 0 && trimmed[0] == '{' && validStart(trimmed)
}

func tooLarge(f File, limit string) model.Note {
	return model.Note{
		Code: "too-large", Severity: model.Error, Place: model.Place{File: f.Name},
		Text: "the file is larger than " + limit + " and was not read",
		Fix:  "split it, or export fewer objects",
	}
}
