// Kerf-node serves a node's GPUs to its kubelet.
package main

import (
	"os"

	"github.com/kerfdev/kerf/internal/node"
)

func main() {
	os.Exit(node.Main(os.Args[1:], node.Standard()))
}
