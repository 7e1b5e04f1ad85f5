// Package nodeconfig finds the device config of one node: it reads configs from
// a file or from a mounted ConfigMap, chooses the one that the node's label
// names, and watches both for changes. It also resolves the flags of NVIDIA's
// device plugin (k8s-device-plugin v0.20.0) from the command line, the
// environment and the config, in this order.
//
// Reading is strict unless told otherwise: what NVIDIA's plugin would ignore in
// silence is an error that names its line.
package nodeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
)

// A Source says where a node's config comes from. With neither File nor Dir
// there is one config, the empty one: nothing is shared.
type Source struct {
	File string // the one config, whatever the node's labels say
	Dir  string // a folder with a file for each named config, as a ConfigMap is mounted
	// Label is the node label that names a config of Dir; "" is
	// nvidia.com/device-plugin.config.
	Label string
	// Default names the config of nodes without the label, "" for none.
	Default string
	// Fallbacks are tried in turn when neither label nor default names a config:
	// "named" takes the one called default, "single" the only one, "empty" none.
	// None given means named, then single, as the chart has it.
	Fallbacks []string
	// Lenient makes warnings of what a config does not say properly, and takes
	// what it evidently means.
	Lenient bool
}

// A Selection is the config that a node gets.
type Selection struct {
	Name     string // "" for the empty config and for that of Source.File
	File     string // "" for the empty config
	Config   deviceconfig.Config
	Warnings []string // what is wrong with it, yet accepted
}

// Title names the selection in messages.
func (s Selection) Title() string {
	switch {
	case s.Name != "":
		return s.Name
	case s.File != "":
		return s.File
	}
	return "(none)"
}

// Select returns the config of a node with these labels. Errors are a
// *gpu.ConfigError when a name is that of no config, an *InvalidError when the
// config cannot be used, and those of reading files.
func (s Source) Select(labels map[string]string) (Selection, error) {
	if s.File != "" {
		return s.read(Selection{File: s.File})
	}
	if s.Dir == "" {
		return Selection{}, nil
	}
	names, err := s.Names()
	if err != nil {
		return Selection{}, err
	}
	name, err := s.choose(names, labels[s.label()])
	if err != nil || name == "" {
		return Selection{}, err
	}
	return s.read(Selection{Name: name, File: filepath.Join(s.Dir, name)})
}

func (s Source) label() string {
	if s.Label != "" {
		return s.Label
	}
	return model.LabelDeviceConfig
}

// Names lists the configs of Dir, sorted. Folders and what begins with ".." are
// the kubelet's own and no configs.
func (s Source) Names() ([]string, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("read the folder of configs: %w", err)
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		info, err := os.Stat(filepath.Join(s.Dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a link whose target is being replaced
		}
		if err != nil {
			return nil, fmt.Errorf("read the folder of configs: %w", err)
		}
		if !info.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// choose picks a name as gpu.Select does for the planner; "" is the empty config.
func (s Source) choose(names []string, label string) (string, error) {
	sharing := model.Sharing{Default: s.Default, Configs: map[string]deviceconfig.Config{}}
	for _, n := range names {
		sharing.Configs[n] = deviceconfig.Config{}
	}
	if label != "" || s.Default != "" || len(s.Fallbacks) == 0 {
		name, _, err := gpu.Select(sharing, map[string]string{model.LabelDeviceConfig: label})
		return name, err
	}
	for _, f := range s.Fallbacks {
		switch {
		case f == "named" && slices.Contains(names, "default"):
			return "default", nil
		case f == "single" && len(names) == 1:
			return names[0], nil
		case f == "empty":
			return "", nil
		}
	}
	return "", &gpu.ConfigError{Known: names}
}

// Check reports a fallback that does not exist.
func (s Source) Check() error {
	for _, f := range s.Fallbacks {
		if !slices.Contains([]string{"named", "single", "empty"}, f) {
			return fmt.Errorf("unknown fallback strategy %q; known: named, single, empty", f)
		}
	}
	return nil
}

// read fills a selection from its file.
func (s Source) read(sel Selection) (Selection, error) {
	data, err := os.ReadFile(sel.File)
	if err != nil {
		return Selection{}, fmt.Errorf("read the device config: %w", err)
	}
	sel.Config, sel.Warnings, err = Decode(sel.File, data, s.Lenient)
	return sel, err
}
