package nodepool

import (
	"strconv"
	"time"

	"github.com/kerfdev/kerf/api/manifest"
)

// never stands for a duration of "Never".
const never = time.Duration(-1)

// duration reads a Karpenter duration: "720h", "1h30m" or "Never".
func duration(n *manifest.Node, absent time.Duration) time.Duration {
	s := n.Str()
	if s == "" {
		return absent
	}
	if s == "Never" {
		return never
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return absent
	}
	return d
}

// seconds turns a count of seconds into the shortest Karpenter duration: 2592000
// into "720h". Text that is no count is returned with an s behind it.
func seconds(s string) string {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil || n == 0:
		return s + "s"
	case n%3600 == 0:
		return strconv.FormatInt(n/3600, 10) + "h"
	case n%60 == 0:
		return strconv.FormatInt(n/60, 10) + "m"
	}
	return s + "s"
}
