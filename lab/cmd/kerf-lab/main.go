// Kerf-lab runs a real Kubernetes control plane to try Kerf on.
package main

import (
	"os"

	"github.com/kerfdev/kerf/lab/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Standard()))
}
