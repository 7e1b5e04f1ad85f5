package intake

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/model"
)

// DefaultRegion is the region of the book when nothing names one.
const DefaultRegion = "us-east-1"

// book loads the region's types and prices, with the user's own over them.
func (l *loader) book() error {
	region, why := l.region()
	book, err := l.load(region)
	if err != nil {
		return err
	}
	if l.options.Region == "" {
		l.note(model.Info, "region", model.Place{}, fmt.Sprintf("instance types and prices are those of %s, %s", region, why), "choose another with --region")
	}
	if book, err = l.own(book); err != nil {
		return err
	}
	l.types = book
	l.snapshot.Region, l.snapshot.PriceBasis, l.snapshot.Types = book.Region, book.PriceBasis, book.Types
	return nil
}

// Book is the book of Options.Region, or of DefaultRegion, with the user's own
// types and prices over it, and notes on those that change nothing.
func Book(o Options) (catalog.Book, []model.Note, error) {
	l := &loader{options: o}
	book, err := l.load(cmp.Or(o.Region, DefaultRegion))
	if err != nil {
		return book, nil, err
	}
	book, err = l.own(book)
	return book, l.notes, err
}

// A FileError is why a file of the user's own prices or types cannot be used.
type FileError struct {
	File string
	Err  error
}

// Error names the file first.
func (e *FileError) Error() string { return e.File + ": " + e.Err.Error() }

// Unwrap returns what is wrong in the file.
func (e *FileError) Unwrap() error { return e.Err }

// Note is the error with its place apart from its text.
func (e *FileError) Note() model.Note {
	out := model.Note{Code: "unusable-file", Severity: model.Error, Place: model.Place{File: e.File}, Text: e.Err.Error()}
	if at := (*catalog.LineError)(nil); errors.As(e.Err, &at) {
		out.Place.Line, out.Text = at.Line, at.Err.Error()
	}
	return out
}

// load takes the book of a region; for a region without one, the types alone
// when the user brings prices.
func (l *loader) load(region string) (catalog.Book, error) {
	book, err := catalog.Load(region)
	if err == nil || len(l.options.Prices.Data) == 0 {
		return book, err
	}
	if bare, failed := catalog.Unpriced(region); failed == nil {
		return bare, nil
	}
	return book, err
}

// own puts the user's types and prices over the book's.
func (l *loader) own(book catalog.Book) (catalog.Book, error) {
	var types []model.InstanceType
	var prices []catalog.Price
	var err error
	if f := l.options.InstanceTypes; len(f.Data) > 0 {
		if types, err = catalog.ParseInstanceTypes(f.Data); err != nil {
			return book, &FileError{f.Name, err}
		}
	}
	if f := l.options.Prices; len(f.Data) > 0 {
		if prices, err = catalog.ParsePrices(f.Data); err != nil {
			return book, &FileError{f.Name, err}
		}
	}
	out, notes := book.With(types, prices)
	for _, n := range notes {
		n.Place.File = cmp.Or(n.Place.File, l.options.Prices.Name, l.options.InstanceTypes.Name)
		l.notes = append(l.notes, n)
	}
	return out, nil
}

// region says which region the input is about, and how that is known.
func (l *loader) region() (name, why string) {
	if l.options.Region != "" {
		return l.options.Region, ""
	}
	known := catalog.Regions()
	for _, n := range l.snapshot.Nodes {
		for _, r := range []string{n.Labels[model.LabelRegion], ofZone(n.Zone, known)} {
			if slices.Contains(known, r) {
				return r, "where node " + n.Name + " runs"
			}
		}
	}
	for _, p := range l.snapshot.Pools {
		for _, r := range p.Requirements {
			for _, v := range r.Values {
				if region := named(r, v, known); region != "" {
					return region, "which NodePool " + p.Name + " names"
				}
			}
		}
	}
	return DefaultRegion, "as nothing names a region"
}

// named is the region that a pool's requirement admits.
func named(r model.Requirement, value string, known []string) string {
	switch {
	case r.Operator != model.In:
	case r.Key == model.LabelZone:
		return ofZone(value, known)
	case r.Key == model.LabelRegion && slices.Contains(known, value):
		return value
	}
	return ""
}

var zoneSuffix = regexp.MustCompile(`(-[a-z0-9]|[a-z])$`)

// ofZone is the region of a zone: us-east-1a, us-central1-a, cn-beijing-h, eastus-1.
func ofZone(zone string, known []string) string {
	region := strings.TrimSuffix(zone, zoneSuffix.FindString(zone))
	if zone != "" && region != zone && slices.Contains(known, region) {
		return region
	}
	return ""
}
