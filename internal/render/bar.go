package render

import "strings"

// eighths are bars of one to eight eighths of a cell.
var eighths = []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"}

// bar draws part of whole in n cells. Whatever is not nothing shows, and only
// what is full looks full.
func (p *page) bar(part, whole int64, n int, s style) string {
	if whole <= 0 {
		return p.frame(strings.Repeat(p.blank(), n), "", s)
	}
	part = min(max(part, 0), whole)
	if !p.Unicode {
		full := int(part * int64(n) / whole)
		if part > 0 && full == 0 {
			full = 1
		}
		return p.frame(strings.Repeat(p.blank(), n-full), strings.Repeat("#", full), s)
	}
	units := int(part * int64(n) * 8 / whole)
	if part > 0 && units == 0 {
		units = 1
	}
	filled := strings.Repeat("█", units/8) + eighths[units%8]
	return p.frame(strings.Repeat(p.blank(), n-(units+7)/8), filled, s)
}

// cells draws one cell for each of n slices, used of them filled.
func (p *page) cells(used, n int, s style) string {
	if p.Unicode {
		return p.frame(strings.Repeat("·", n-used), strings.Repeat("█", used), s)
	}
	return p.frame(strings.Repeat(".", n-used), strings.Repeat("#", used), s)
}

func (p *page) blank() string {
	if p.Unicode {
		return " "
	}
	return "."
}

func (p *page) frame(empty, filled string, s style) string {
	left, right := "[", "]"
	if p.Unicode {
		left, right = "▕", "▏"
	}
	return p.paint(dim, left) + p.paint(s, filled) + p.paint(dim, empty) + p.paint(dim, right)
}
