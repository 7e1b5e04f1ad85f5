package cli

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgress(t *testing.T) {
	tests := map[string]struct {
		works time.Duration // before the second step
		want  string
	}{
		"nothing is said within a second":           {900 * time.Millisecond, ""},
		"after a second the line says what is done": {1100 * time.Millisecond, "\r\x1b[Kreading ...\r\x1b[Kplanning 10 pods ...\r\x1b[K"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				p := &progress{what: "reading"}
				p.start(&out)
				time.Sleep(tt.works)
				synctest.Wait()
				p.step("planning %d pods", 10)
				p.done()
				p.done()
				time.Sleep(5 * time.Second)
				if got := out.String(); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		})
	}
}
