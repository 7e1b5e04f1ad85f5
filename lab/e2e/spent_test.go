package e2e

import (
	"fmt"
	"runtime"
	"syscall"
	"time"
)

// spent is what something took.
type spent struct {
	took time.Duration
	cpu  time.Duration // of all processors, by this process
}

// spend measures f. It begins without the garbage of what was before, a
// collection of which takes a second of the processors here.
func spend(f func()) spent {
	runtime.GC()
	cpu, begin := processorTime(), time.Now()
	f()
	return spent{time.Since(begin), processorTime() - cpu}
}

func (s spent) String() string {
	return fmt.Sprintf("%7.3f s  %7.3f s", s.took.Seconds(), s.cpu.Seconds())
}

// processorTime is what this process has used so far; 0 where the system does
// not tell.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
