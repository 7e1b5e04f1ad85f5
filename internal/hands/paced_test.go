package hands

import (
	"testing"
	"time"
)

// Nodes that may go wait for the next look: 10 s as Karpenter has it, longer only
// where a look takes more than a second, and never for minutes.
func TestHowLongDisruptionRests(t *testing.T) {
	for name, c := range map[string]struct{ asked, took, want time.Duration }{
		"a small cluster":           {10 * time.Second, 50 * time.Millisecond, 10 * time.Second},
		"a look that takes seconds": {10 * time.Second, 3 * time.Second, 27 * time.Second},
		"one that takes for ever":   {10 * time.Second, time.Minute, 2 * time.Minute},
		"something was disrupted":   {1, 3 * time.Second, 1},
		"state is not there yet":    {time.Second, 3 * time.Second, time.Second},
	} {
		if got := pause(c.asked, c.took); got != c.want {
			t.Errorf("%s: rests %v, want %v", name, got, c.want)
		}
	}
}
