// Package intake makes one Snapshot of everything that was given: the objects
// in the files, the instance types and prices of the region, and what has to be
// assumed where the files are silent.
//
// Load reads on wherever it can. What it left out, corrected or assumed is in
// the notes, each with its place.
package intake

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/install"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/nodepool"
	"github.com/kerfdev/kerf/internal/source"
	"github.com/kerfdev/kerf/internal/workload"
)

// Options say what the files do not. The zero value is what most people want.
type Options struct {
	// Region of the book of types and prices; "" = the one that the files name,
	// else DefaultRegion.
	Region string
	// Prices is the user's price file, as catalog.ParsePrices reads it; without
	// data the book's prices count.
	Prices source.File
	// InstanceTypes is the answer of "aws ec2 describe-instance-types"; without
	// data the book's types count.
	InstanceTypes source.File
	// NoExtendedResourceToleration says that the cluster does not run the
	// admission plugin of that name.
	NoExtendedResourceToleration bool
	// Guard says whether pods that the guard refuses are planned for.
	Guard GuardMode
	// Now becomes Snapshot.Now. The zero value is the time at which kerf snapshot
	// wrote a file, where there is such a one.
	Now time.Time
	// GPUDeadline is how long a node's GPUs may take to come up and still count;
	// 0 is 10 minutes, as kerf-controller has it. Without Now those that are
	// missing never count.
	GPUDeadline time.Duration
}

// Loaded is what the files say, and what is to be said about them.
type Loaded struct {
	Snapshot model.Snapshot
	// Notes stand in the order of the files and their lines; those that belong
	// to no file come last. None stands twice.
	Notes []model.Note
}

// Load reads the files. It fails when they hold nothing that can be used, when
// the region is not known, and when the price or type file cannot be read;
// mistakes in single objects are notes.
func Load(files []source.File, o Options) (Loaded, error) { return LoadOver(nil, files, o) }

// LoadOver is Load for a cluster's objects with the files on top: what a file
// says counts where both have an object, as if it had been applied. Documents
// of a cluster have no lines, and their File says which object they are.
func LoadOver(cluster []manifest.Document, files []source.File, o Options) (Loaded, error) {
	l := &loader{options: o}
	docs, notes := source.ParseHeads(files)
	l.notes = notes
	if len(docs)+len(cluster) == 0 {
		return Loaded{}, nothing(files, notes)
	}
	docs = l.unique(slices.Concat(cluster, docs))
	l.taken(docs)
	l.read(docs)
	l.guard(docs)
	if err := l.book(); err != nil {
		return Loaded{}, err
	}
	l.autoMode()
	l.consumable()
	l.overlays()
	l.nodes()
	l.quotas()
	l.pools()
	l.images()
	l.unread(docs)
	l.assumptions()
	return Loaded{Snapshot: l.snapshot, Notes: arranged(l.notes, files)}, nil
}

// A loader holds what is known while Load runs.
type loader struct {
	options  Options
	snapshot model.Snapshot
	notes    []model.Note
	pool     nodepool.Result
	types    catalog.Book
	leasts   map[string]model.Node // what least found, where it is worth keeping; nil = nowhere
}

// nothing is the error for files without a single object.
func nothing(files []source.File, notes []model.Note) error {
	for _, n := range notes {
		if n.Severity == model.Error {
			return fmt.Errorf("%s: %s", n.Place, n.Text)
		}
	}
	switch len(files) {
	case 0:
		return errors.New("no file was given")
	case 1:
		return fmt.Errorf("%s holds no object that kerf can read", files[0].Name)
	}
	return fmt.Errorf("none of the %d files holds an object that kerf can read", len(files))
}

// read hands the documents to those who know their kinds.
func (l *loader) read(docs []manifest.Document) {
	work, notes := workload.Read(docs, workload.Options{NoExtendedResourceToleration: l.options.NoExtendedResourceToleration})
	l.notes = append(l.notes, notes...)
	l.pool, notes = nodepool.Read(docs)
	l.notes = append(l.notes, notes...)
	plugin, notes := install.Read(docs, source.Nested)
	l.notes = append(l.notes, notes...)
	l.snapshot = model.Snapshot{
		Now: l.options.Now, Pods: work.Pods, Nodes: work.Nodes, Pools: l.pool.Pools, DaemonSets: work.DaemonSets, Sharing: plugin.Sharing,
		Plugins: plugin.Plugins, Quotas: work.Quotas, LimitRanges: work.LimitRanges, Budgets: work.Budgets, Namespaces: work.Namespaces,
	}
}

// note adds a note on a place.
func (l *loader) note(s model.Severity, code string, at model.Place, text, fix string) {
	l.notes = append(l.notes, model.Note{Code: code, Severity: s, Place: at, Text: text, Fix: fix})
}
