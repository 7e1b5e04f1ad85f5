package cli

import (
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/kerfdev/kerf/internal/render"
)

// terminal returns the file behind w when that is a terminal.
func terminal(w io.Writer) (*os.File, bool) {
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// screen finds out what can be shown on w. Without a terminal there is no colour
// and nothing beyond ASCII; COLUMNS sets the width then.
func (a *app) screen(w io.Writer, wide bool) render.Options {
	o := render.Options{Wide: wide}
	f, ok := terminal(w)
	if !ok {
		o.Width, _ = strconv.Atoi(a.Getenv("COLUMNS")) // 0 is the default
		return o
	}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		o.Width = width
	}
	o.Colour = a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb"
	o.Unicode = a.utf8()
	return o
}

// utf8 reads the locale as C libraries do: the first variable that is set counts.
func (a *app) utf8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := a.Getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}
