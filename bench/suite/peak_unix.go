//go:build unix

package suite

import (
	"os"
	"runtime"
	"syscall"
)

// peak is the most memory, in MiB, that a process that has ended held at once.
func peak(s *os.ProcessState) float64 {
	u, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	unit := int64(1024) // bytes; Darwin counts in single ones
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	return float64(int64(u.Maxrss)*unit) / float64(mi)
}
