// Kerf-controller gives the pods of a cluster that wait the GPU nodes that fit.
package main

import (
	"os"

	"github.com/kerfdev/kerf/cmd/kerf-controller/command"
)

func main() {
	os.Exit(command.Main(os.Args[1:], os.Stderr))
}
