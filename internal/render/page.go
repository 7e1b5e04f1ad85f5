package render

import (
	"bytes"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// A page gathers lines of text that fit the reader's screen.
type page struct {
	Options
	out bytes.Buffer
}

func newPage(o Options) *page {
	o.Width = o.width()
	return &page{Options: o}
}

func (p *page) flush(w io.Writer) error {
	_, err := w.Write(p.out.Bytes())
	return err
}

// A style is an ANSI colour code of the 16 that every theme defines.
type style string

const (
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

func (p *page) paint(s style, text string) string {
	if !p.Colour || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

var plain = strings.NewReplacer(
	"×", "x", "→", "->", "·", "-", "…", "...", "–", "-", "—", "-", "≥", ">=", "≤", "<=", "’", "'", "“", `"`, "”", `"`,
	"✓", "+", "✗", "x", "≠", "!=",
)

// say writes the signs that Kerf itself uses in ASCII where the screen knows no
// other; words of the input stay as they are.
func (p *page) say(text string) string {
	if p.Unicode {
		return text
	}
	return plain.Replace(text)
}

// line writes one line without its trailing blanks.
func (p *page) line(parts ...string) {
	p.out.WriteString(strings.TrimRight(strings.Join(parts, ""), " "))
	p.out.WriteByte('\n')
}

// split writes left and right as far apart as the page is wide, on two lines
// when they do not fit on one.
func (p *page) split(left, right string) {
	room := min(p.Width, textWidth)
	gap := room - wide(left) - wide(right)
	if right == "" {
		p.line(left)
		return
	}
	if gap < 2 {
		p.line(left)
		p.line(strings.Repeat(" ", max(room-wide(right), 4)), right)
		return
	}
	p.line(left, strings.Repeat(" ", gap), right)
}

// para writes text wrapped, its first line after head, the others indented as
// deep as head is wide.
func (p *page) para(head, text string) {
	indent := strings.Repeat(" ", wide(head))
	for i, l := range p.wrap(p.say(text), wide(head)) {
		if i == 0 {
			p.line(head, l)
			continue
		}
		p.line(indent, l)
	}
}

// wrap breaks text into lines that leave indent columns free.
func (p *page) wrap(text string, indent int) []string {
	return fold(text, max(min(p.Width, textWidth)-indent, 24))
}

// fold breaks text at blanks into lines of at most room columns; a longer word
// has a line to itself. Line breaks of the text are kept.
func fold(text string, room int) []string {
	var lines []string
	for _, par := range strings.Split(text, "\n") {
		cur, w := "", 0
		for _, word := range strings.Fields(par) {
			n := wide(word)
			if cur != "" && w+1+n > room {
				lines = append(lines, cur)
				cur, w = "", 0
			}
			if cur != "" {
				cur += " "
				w++
			}
			cur += word
			w += n
		}
		lines = append(lines, cur)
	}
	return lines
}

// wide is the number of columns that text takes on a screen.
func wide(text string) int { return ansi.StringWidth(text) }

// pad fills text up with blanks to n columns.
func pad(text string, n int) string {
	return text + strings.Repeat(" ", max(n-wide(text), 0))
}

// padLeft fills text up with blanks on its left to n columns.
func padLeft(text string, n int) string {
	return strings.Repeat(" ", max(n-wide(text), 0)) + text
}

// clip cuts text to n columns.
func (p *page) clip(text string, n int) string {
	tail := p.say("…")
	if n <= wide(tail) {
		return ""
	}
	return ansi.Truncate(text, n, tail)
}
