//go:build !unix

package rival

import "time"

// CPUTime is the user and system time of this process so far; it is not known here.
func CPUTime() time.Duration { return 0 }
