package demo

import (
	"fmt"
	"strings"
	"time"
)

// draw puts the table in the place of the last one. Where there is no terminal
// the timeline says it all.
func (s *show) draw(left string) {
	if !s.screen.Terminal || s.world == nil {
		return
	}
	lines := s.table(left)
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	for _, l := range lines {
		b.WriteString("\r" + l + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	s.drawn = len(lines)
	fmt.Fprint(s.out, b.String())
}

func (s *show) table(left string) []string {
	t := s.tally()
	out := []string{
		fmt.Sprintf("  %3.0f s   %d nodes   %d of %d GPUs and slices in use   %d pods run   %s $/h", time.Since(s.start).Seconds(),
			t.nodes, t.used, t.gpus, t.pods, s.strong(fmt.Sprintf("%.3f", t.price))),
		s.dim("          " + left), "",
		s.dim(fmt.Sprintf("  %-18s %-8s %-13s %-10s %-13s %-18s %8s", "node", "pool", "type", "capacity", "state", "GPUs and slices", "$/h")),
	}
	for _, n := range s.fleet() {
		out = append(out, fmt.Sprintf("  %-18s %-8s %-13s %-10s %-13s %-18s %8.3f",
			cut(n.name, 18), cut(n.pool, 8), n.kind, n.capacity, n.state, bar(n.used, n.gpus), n.price))
	}
	out = append(out, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.recent {
		out = append(out, s.dim("  "+cut(l, s.screen.Width-4)))
	}
	return out
}

// bar shows up to ten devices: "[#######...] 7/10".
func bar(used, all int64) string {
	if all == 0 {
		return "-"
	}
	n := min(all, 10)
	filled := min(used*n/all, n)
	return fmt.Sprintf("[%s%s] %d/%d", strings.Repeat("#", int(filled)), strings.Repeat(".", int(n-filled)), used, all)
}

// cut shortens a text to a number of columns.
func cut(text string, width int) string {
	if r := []rune(text); len(r) > width && width > 2 {
		return string(r[:width-2]) + ".."
	}
	return text
}

func (s *show) strong(text string) string { return s.style("1", text) }

func (s *show) dim(text string) string { return s.style("2", text) }

func (s *show) style(code, text string) string {
	if !s.screen.Colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// summary ends the demo.
func (s *show) summary(peak, low tally, other comparison) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	fmt.Fprintf(s.out, "\n  %s\n\n", s.strong("what happened"))
	fmt.Fprintf(s.out, "  27 pods    %d nodes   %2d GPUs and slices   %.3f $/h\n", peak.nodes, peak.gpus, peak.price)
	fmt.Fprintf(s.out, "   6 pods    %d nodes   %2d GPUs and slices   %.3f $/h\n", low.nodes, low.gpus, low.price)
	words := ""
	if other.unplaced > 0 {
		words = fmt.Sprintf(" and leaves %d pods without a place", other.unplaced)
	}
	fmt.Fprintf(s.out, "  karpenter 1.15 for the same 27 pods: %d nodes, %.3f $/h%s\n", other.nodes, other.price, words)
	if saved := other.price - peak.price; saved > 0 {
		fmt.Fprintf(s.out, "  %s\n", s.strong(fmt.Sprintf("saved: %.3f $/h, %.0f %%, %.0f $ a month", saved, 100*saved/other.price, saved*hoursAMonth)))
	}
	fmt.Fprintf(s.out, "\n  %.0f s; machines were simulated, %d times as fast as real ones, the control plane was real\n", time.Since(s.start).Seconds(), speed)
}

// hoursAMonth is what clouds count a month as.
const hoursAMonth = 730
