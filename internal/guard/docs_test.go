package guard_test

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/kerfdev/kerf/internal/guard"
)

// The table of docs/guard.md is that of the rules.
func TestTheManualListsEveryRule(t *testing.T) {
	const manual = "../../docs/guard.md"
	data, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, r := range guard.Rules() {
		row := strconv.Itoa(r.Row)
		if r.Row == 0 {
			row = "-"
		}
		also := ""
		if r.PodSecurity {
			also = "yes"
		}
		line := fmt.Sprintf("| %s | `%s` | %s | %s | %s | %s | %s |\n", row, r.Name, r.Severity, r.Title, r.Sees, also, cmp.Or(r.Except, "nobody"))
		if !strings.Contains(string(data), line) {
			t.Errorf("%s lacks\n%s", manual, line)
		}
		rows++
	}
	if got := len(regexp.MustCompile("(?m)^\\| [0-9-]+ \\| `").FindAll(data, -1)); got != rows {
		t.Errorf("%s lists %d rules; there are %d", manual, got, rows)
	}
}
