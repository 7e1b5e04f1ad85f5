package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A cloudBook is one cloud's facts on the way into its two files.
type cloudBook struct {
	name      string
	date      string // of the prices
	currency  string // "USD", or "CNY 7.3": units for one dollar
	typesFrom []string
	priceFrom []string
	columns   []string // header of the types file; see internal/catalog/read.go
	types     map[string][]string
	regions   map[string]*region
}

// A region is one section of a price file.
type region struct {
	zonePrefix string // "us-east-1"; a zone's name is this and a letter
	zones      string // letters of the zones where everything is sold unless a row says otherwise
	basis      string
	notes      []string
	rows       map[string]price
}

// A price is one row: amounts as written, "~" before an estimate, "" when it is
// not sold so.
type price struct {
	onDemand, spot string
	zones          string // letters, "" = the region's
}

// addType adds a type's row and refuses a second, different one.
func (b *cloudBook) addType(row []string) error {
	name := row[0]
	if have, ok := b.types[name]; ok && !slices.Equal(have, row) {
		return fmt.Errorf("%s: type %s is described in two ways:\n  %q\n  %q", b.name, name, have, row)
	}
	if len(row) != len(b.columns) {
		return fmt.Errorf("%s: type %s has %d cells, the header %d", b.name, name, len(row), len(b.columns))
	}
	b.types[name] = row
	return nil
}

// addPrice adds a row to a region and refuses a second one.
func (b *cloudBook) addPrice(in, name string, p price) error {
	r := b.regions[in]
	if _, ok := r.rows[name]; ok {
		return fmt.Errorf("%s: type %s has two prices in %s", b.name, name, in)
	}
	r.rows[name] = p
	return nil
}

// files renders the types and the prices.
func (b cloudBook) files() []file {
	return []file{
		{b.name + ".types.csv", b.typesFile()},
		{b.name + ".prices.csv", b.pricesFile()},
	}
}

func (b cloudBook) typesFile() []byte {
	var w bytes.Buffer
	head(&w, "Instance types of "+b.name+": facts only. Written by tools/books; run make update instead of editing.", b.typesFrom)
	fmt.Fprintln(&w, strings.Join(b.columns, ","))
	for _, name := range slices.Sorted(maps.Keys(b.types)) {
		fmt.Fprintln(&w, strings.TrimRight(strings.Join(b.types[name], ","), ","))
	}
	return w.Bytes()
}

func (b cloudBook) pricesFile() []byte {
	var w bytes.Buffer
	head(&w, "Prices of "+b.name+" for an hour, on demand and spot; ~ marks an estimate. Written by tools/books; run make update instead of editing.", b.priceFrom)
	fmt.Fprintf(&w, "date: %s\ncurrency: %s\n", b.date, b.currency)
	for _, name := range slices.Sorted(maps.Keys(b.regions)) {
		b.regions[name].write(&w, name)
	}
	return w.Bytes()
}

func head(w *bytes.Buffer, what string, from []string) {
	fmt.Fprintf(w, "# %s\n", what)
	for _, s := range from {
		fmt.Fprintf(w, "# source: %s\n", s)
	}
}

// write renders a section, its rows sorted by type.
func (r *region) write(w *bytes.Buffer, name string) {
	fmt.Fprintf(w, "[%s]\nzones: %s %s\nbasis: %s\n", name, r.zonePrefix, r.zones, r.basis)
	for _, n := range r.notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	for _, t := range slices.Sorted(maps.Keys(r.rows)) {
		p := r.rows[t]
		z := p.zones
		if z == r.zones {
			z = ""
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join([]string{t, p.onDemand, p.spot, z}, ","), ","))
	}
}

// letters returns the distinct letters of s, sorted.
func letters(s string) string {
	out := []byte(strings.ReplaceAll(s, " ", ""))
	slices.Sort(out)
	return string(slices.Compact(out))
}

// amount writes a price with at most six decimals, so that 0.8048 stays 0.8048
// and noise of a multiplication goes.
func amount(s string) (string, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v < 0 {
		return "", fmt.Errorf("price %q is not a number of zero or more", s)
	}
	if v == 0 {
		return "", nil // the sources write 0 for "no price"
	}
	t := strconv.FormatFloat(v, 'f', 6, 64)
	return strings.TrimRight(strings.TrimRight(t, "0"), "."), nil
}

// share writes the fraction of a GPU, "" for a whole one.
func share(f float64) string {
	if f == 0 || f == 1 {
		return ""
	}
	return strconv.FormatFloat(f, 'g', 6, 64)
}

// first3 returns the first three letters of s, or s.
func first3(s string) string { return s[:cmp.Or(min(len(s), 3), len(s))] }
