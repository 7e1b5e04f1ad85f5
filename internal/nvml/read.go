package nvml

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// version is that of the inventory's schema.
const version = "v1"

//go:embed inventories/*.yaml
var recordings embed.FS

// Recordings lists the names of the inventories that come with the program.
func Recordings() []string {
	entries, _ := fs.ReadDir(recordings, "inventories") // the folder is in the program
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// Recording returns one of Recordings.
func Recording(name string) (Inventory, error) {
	data, err := recordings.ReadFile(path.Join("inventories", name+".yaml"))
	if err != nil {
		return Inventory{}, fmt.Errorf("no recording is called %q; there are %s", name, strings.Join(Recordings(), ", "))
	}
	return Decode(data)
}

// Load reads an inventory from a file, or the recording of that name when there
// is no such file.
func Load(file string) (Inventory, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && slices.Contains(Recordings(), file) {
		return Recording(file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return Inventory{}, fmt.Errorf("read inventory %s: no such file; give a file written by `kerf-node inventory`, or a recording: %s", file, strings.Join(Recordings(), ", "))
	}
	if err != nil {
		return Inventory{}, fmt.Errorf("read inventory: %w", err)
	}
	inv, err := Decode(data)
	if err != nil {
		return Inventory{}, fmt.Errorf("%s: %w", file, err)
	}
	return inv, nil
}

// Decode reads an inventory as Encode writes it. Fields that it does not know,
// repeated ones, and inventories that no machine can have are errors.
func Decode(data []byte) (Inventory, error) {
	var inv Inventory
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	err := d.Decode(&inv)
	if errors.Is(err, io.EOF) {
		return Inventory{}, errors.New("the inventory is empty")
	}
	if err != nil {
		return Inventory{}, readable(err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Inventory{}, errors.New("there is more than one document; an inventory is one")
	}
	if err := inv.check(); err != nil {
		return Inventory{}, err
	}
	slices.SortFunc(inv.GPUs, func(a, b GPU) int { return a.Index - b.Index })
	return inv, nil
}

// Encode writes an inventory as YAML.
func Encode(inv Inventory) ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(inv); err != nil {
		return nil, fmt.Errorf("write inventory: %w", err)
	}
	return out.Bytes(), e.Close()
}

// goType is the end of the library's message about an unknown field.
var goType = regexp.MustCompile(`field (\S+) not found in type \S+`)

// readable rewrites the library's messages without the names of Go types.
func readable(err error) error {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n")
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return errors.New(goType.ReplaceAllString(first, "unknown field $1"))
}

var busID = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// check reports what no machine can have.
func (inv Inventory) check() error {
	if inv.Version != version {
		return fmt.Errorf("version %q: this program reads inventories of version %s", inv.Version, version)
	}
	index, uuid := map[int]bool{}, map[string]bool{}
	for _, g := range inv.GPUs {
		switch {
		case index[g.Index]:
			return fmt.Errorf("GPU index %d is given twice", g.Index)
		case !strings.HasPrefix(g.UUID, "GPU-"):
			return fmt.Errorf("GPU %d: uuid %q: expected one that begins with GPU-", g.Index, g.UUID)
		case uuid[g.UUID]:
			return fmt.Errorf("GPU %d: uuid %s is given twice", g.Index, g.UUID)
		case g.PCI != "" && !busID.MatchString(g.PCI):
			return fmt.Errorf("GPU %d: pci %q: expected a bus id such as 0000:10:1c.0", g.Index, g.PCI)
		case g.MIG != MIGNone && g.MIG != MIGDisabled && g.MIG != MIGEnabled:
			return fmt.Errorf("GPU %d: mig %q: expected enabled or disabled, or nothing for a GPU without MIG", g.Index, g.MIG)
		case g.MIG != MIGEnabled && len(g.Instances) > 0:
			return fmt.Errorf("GPU %d has instances and is not in MIG mode: set mig: enabled", g.Index)
		}
		index[g.Index], uuid[g.UUID] = true, true
		if err := g.checkInstances(uuid); err != nil {
			return err
		}
	}
	for _, l := range inv.Links {
		if !index[l.A] || !index[l.B] || l.A == l.B {
			return fmt.Errorf("a link joins GPU %d and GPU %d, which are not two GPUs of the inventory", l.A, l.B)
		}
		if _, ok := pathScores[l.Path]; !ok && l.Path != "" {
			return fmt.Errorf("the link of GPU %d and GPU %d: path %q is not known", l.A, l.B, l.Path)
		}
	}
	return nil
}

func (g GPU) checkInstances(uuid map[string]bool) error {
	index := map[int]bool{}
	for _, in := range g.Instances {
		switch {
		case !strings.HasPrefix(in.UUID, "MIG-"):
			return fmt.Errorf("GPU %d, instance %d: uuid %q: expected one that begins with MIG-", g.Index, in.Index, in.UUID)
		case uuid[in.UUID]:
			return fmt.Errorf("GPU %d, instance %d: uuid %s is given twice", g.Index, in.Index, in.UUID)
		case index[in.Index]:
			return fmt.Errorf("GPU %d: instance %d is given twice", g.Index, in.Index)
		case !strings.Contains(in.Profile, "g."):
			return fmt.Errorf("GPU %d, instance %d: profile %q: expected a MIG profile such as 1g.5gb", g.Index, in.Index, in.Profile)
		}
		uuid[in.UUID], index[in.Index] = true, true
	}
	return nil
}
