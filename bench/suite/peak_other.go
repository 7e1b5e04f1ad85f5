//go:build !unix

package suite

import "os"

// peak is the most memory that a process held at once; it is not known here.
func peak(*os.ProcessState) float64 { return 0 }
