//go:build unix

package rival

import (
	"syscall"
	"time"
)

// CPUTime is the user and system time of this process so far, 0 when unknown.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
