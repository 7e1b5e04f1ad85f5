// Kerf plans GPU nodes from the manifests that people already have.
package main

import (
	"os"

	"github.com/kerfdev/kerf/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Standard()))
}
