package render

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the files under testdata anew")

// golden compares text with a file under testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestTableIsTheSameAsTheExamples(t *testing.T) {
	tests := map[string]struct {
		report Report
		opts   Options
	}{
		"seed-100-ascii":  {seed(), Options{}},
		"seed-80":         {seed(), Options{Width: 80, Unicode: true}},
		"seed-200":        {seed(), Options{Width: 200, Unicode: true}},
		"seed-100-colour": {seed(), Options{Unicode: true, Colour: true}},
		"seed-140-wide":   {seed(), Options{Width: 140, Unicode: true, Wide: true}},
		"mixed-120":       {mixed(), Options{Width: 120, Unicode: true}},
		"mixed-80":        {mixed(), Options{Width: 80, Unicode: true}},
		"crowd-120":       {crowd(2000), Options{Width: 120, Unicode: true}},
		"nothing":         {Report{}, Options{Unicode: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := Table(&out, tt.report, tt.opts); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", out.Bytes())
		})
	}
}

func TestTableStaysWithinItsWidth(t *testing.T) {
	for name, r := range map[string]Report{"seed": seed(), "mixed": mixed(), "crowd": crowd(500)} {
		for _, width := range []int{MinWidth, 80, 100, 120, 200} {
			for _, unicode := range []bool{false, true} {
				var out bytes.Buffer
				if err := Table(&out, r, Options{Width: width, Unicode: unicode}); err != nil {
					t.Fatal(err)
				}
				for _, l := range strings.Split(out.String(), "\n") {
					if wide(l) > width {
						t.Errorf("%s at %d columns: %d columns in %q", name, width, wide(l), l)
					}
				}
			}
		}
	}
}

func TestTableIsASCIIUnlessToldOtherwise(t *testing.T) {
	for name, r := range map[string]Report{"seed": seed(), "mixed": mixed(), "crowd": crowd(100)} {
		var out bytes.Buffer
		if err := Table(&out, r, Options{}); err != nil {
			t.Fatal(err)
		}
		for _, c := range out.String() {
			if c > 126 {
				t.Errorf("%s: %q in the output", name, c)
			}
		}
	}
}

func TestTwoThousandNodesStayShort(t *testing.T) {
	var out bytes.Buffer
	if err := Table(&out, crowd(2000), Options{Width: 120, Unicode: true}); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n > 120 {
		t.Errorf("%d lines", n)
	}
}

func TestColourAddsNothingButColour(t *testing.T) {
	var plainText, coloured bytes.Buffer
	if err := Table(&plainText, seed(), Options{Unicode: true}); err != nil {
		t.Fatal(err)
	}
	if err := Table(&coloured, seed(), Options{Unicode: true, Colour: true}); err != nil {
		t.Fatal(err)
	}
	stripped := stripANSI(coloured.String())
	if diff := cmp.Diff(plainText.String(), stripped); diff != "" {
		t.Error(diff)
	}
}

func stripANSI(s string) string {
	for {
		i := strings.Index(s, "\x1b[")
		if i < 0 {
			return s
		}
		j := strings.IndexByte(s[i:], 'm')
		s = s[:i] + s[i+j+1:]
	}
}
