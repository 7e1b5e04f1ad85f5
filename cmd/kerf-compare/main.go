// Kerf-compare shows Kerf's plan and Karpenter's for the same files side by
// side; kerf compare runs it.
package main

import (
	"os"

	"github.com/kerfdev/kerf/internal/compare"
)

func main() {
	os.Exit(compare.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
