package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"strings"
)

// rows reads a CSV file with a header, and hands each row as a map by column.
func rows(path string, each func(row map[string]string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return records(f, path, each)
}

// records is rows over a reader; lines that begin with # are comments.
func records(r io.Reader, name string, each func(row map[string]string) error) error {
	c := csv.NewReader(r)
	c.Comment = '#'
	header, err := c.Read()
	if err != nil {
		return fmt.Errorf("%s: reading the header: %w", name, err)
	}
	for {
		cells, err := c.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		row := make(map[string]string, len(header))
		for i, h := range header {
			row[strings.TrimSpace(h)] = cells[i]
		}
		if err := each(row); err != nil {
			line, _ := c.FieldPos(0)
			return fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
}
