// Command books writes the instance-type books that internal/catalog embeds,
// from a folder of collected facts.
//
//	go run ./books -data DIR            write the books
//	go run ./books -data DIR -verify    say which books differ, change nothing
//
// DIR holds aws_instance_types.json, aws_prices.csv, gcp_instance_types.csv,
// azure_instance_types.csv and alibaba_instance_types.csv. Equal input gives
// equal bytes.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	data := flag.String("data", "", "folder with the collected facts (required)")
	out := flag.String("out", filepath.Join("..", "internal", "catalog", "books"), "folder of the books")
	verify := flag.Bool("verify", false, "compare with the books that are there, write nothing")
	flag.Parse()
	if err := run(*data, *out, *verify); err != nil {
		fmt.Fprintln(os.Stderr, "books:", err)
		os.Exit(1)
	}
}

func run(data, out string, verify bool) error {
	if data == "" {
		return errors.New("-data is missing: name the folder with the collected facts")
	}
	files, err := generate(data)
	if err != nil {
		return err
	}
	if verify {
		return compare(out, files)
	}
	return write(out, files)
}

// A file is one book: its name and its bytes.
type file struct {
	name string
	data []byte
}

// generate makes every book.
func generate(data string) ([]file, error) {
	var files []file
	for _, cloud := range []func(dir string) (cloudBook, error){aws, gcp, azure, alibaba} {
		b, err := cloud(data)
		if err != nil {
			return nil, err
		}
		files = append(files, b.files()...)
	}
	return files, nil
}

func write(out string, files []file) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(out, f.name), f.data, 0o644); err != nil {
			return err
		}
		fmt.Printf("%s: %d bytes\n", f.name, len(f.data))
	}
	return nil
}

// compare reports every book whose bytes are not those that the data gives.
func compare(out string, files []file) error {
	var errs []error
	for _, f := range files {
		have, err := os.ReadFile(filepath.Join(out, f.name))
		switch {
		case err != nil:
			errs = append(errs, err)
		case !bytes.Equal(have, f.data):
			errs = append(errs, fmt.Errorf("%s differs from what the data gives from line %d on; run: make update", f.name, firstDifference(have, f.data)))
		}
	}
	return errors.Join(errs...)
}

// firstDifference returns the first line, counted from 1, in which a and b differ.
func firstDifference(a, b []byte) int {
	la, lb := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range min(len(la), len(lb)) {
		if !bytes.Equal(la[i], lb[i]) {
			return i + 1
		}
	}
	return min(len(la), len(lb)) + 1
}
