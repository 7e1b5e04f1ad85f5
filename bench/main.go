// Bench plans every workload with Kerf and with Karpenter and writes
// bench/RESULTS.md and docs/cost.svg. Run it in the root of the project:
//
//	go run ./bench                  under ten minutes
//	BENCH_FULL=1 go run ./bench     runs Karpenter on the large workloads too
//	go run ./bench -only gpu        some workloads, nothing is written
package main

import (
	"os"

	"github.com/kerfdev/kerf/bench/suite"
)

func main() {
	os.Exit(suite.Main(os.Args[1:], os.Stdout, os.Stderr))
}
