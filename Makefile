# Kerf needs Go, gcc, make and git. The toolchain below is fetched by Go itself.
export GOTOOLCHAIN := go1.27.3
export CGO_ENABLED := 0
# go-nvml calls functions that NVIDIA's header calls deprecated.
export CGO_CFLAGS := -g -O2 -Wno-deprecated-declarations
export GOFLAGS := -trimpath

GO    ?= go
DATA  ?= ../shared/data
TOOLS := $(GO) tool -modfile=tools/go.mod

.DEFAULT_GOAL := help
.PHONY: help build test verify update demo gpu lab e2e bench fuzz

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9\/-]+:.*## / {printf "  make %-19s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: bin/kerf bin/kerf-node ## build bin/kerf, bin/kerf-node, and bin/kerf-compare with Karpenter's scheduler in it
	$(GO) build -o bin/kerf-compare ./cmd/kerf-compare

.PHONY: bin/kerf bin/kerf-node
bin/kerf:
	$(GO) build -o bin/kerf ./cmd/kerf

# The node agent loads NVIDIA's library, which takes cgo; symbols would be half of it.
bin/kerf-node:
	CGO_ENABLED=1 $(GO) build -ldflags=-s -o bin/kerf-node ./cmd/kerf-node

.PHONY: bin/kerf-controller
bin/kerf-controller: ## build the controller, with the AWS provider in it: some minutes the first time
	cd cmd/kerf-controller && $(GO) build -o ../../bin/kerf-controller .

test: ## run every test that needs no control plane
	$(GO) test ./...
	CGO_ENABLED=1 $(GO) test ./internal/nvml/driver

verify: ## formatting, vet, staticcheck, tidy modules, generated files up to date
	@test -z "$$($(TOOLS) gofumpt -l . | tee /dev/stderr)" || { echo "run: make update"; exit 1; }
	$(GO) vet ./...
	$(TOOLS) staticcheck ./...
	$(GO) mod tidy -diff
	for module in tools lab cmd/kerf-controller; do (cd $$module && $(GO) mod tidy -diff) || exit 1; done
	@if test -d $(DATA); then cd tools && $(GO) run ./books -data $(abspath $(DATA)) -verify; \
	else echo "books not compared: no source data in $(DATA)"; fi
	cd tools && $(GO) test ./chart

update: ## format the code and rebuild the embedded books and golden files
	$(TOOLS) gofumpt -w .
	$(GO) mod tidy
	@if test -d $(DATA); then cd tools && $(GO) run ./books -data $(abspath $(DATA)); fi
	cd tools && $(GO) test ./chart -update
	$(GO) test ./internal/solve ./internal/render ./internal/health ./cmd/kerf ./cmd/kerf-node -update

demo: bin/kerf ## plan the examples and a fleet of 8,152 pods, then watch the lab: ends by itself
	@sh examples/demo.sh bin/kerf out

gpu: bin/kerf-node ## check the node agent on this machine's GPUs: inventory, serving, Allocate, CDI, health
	@sh examples/gpu.sh bin/kerf-node out/gpu

lab: ## a control plane, a simulated cloud and kerf-controller until Ctrl-C: LABFLAGS="--dir DIR" keeps the objects
	@program=$$(sh lab/build.sh) && exec "$$program" $(LABFLAGS)

PREBUILT := $(if $(KUBEBUILDER_ASSETS),-tags=prebuilt)

# One set of flags, here and in lab/build.sh: others compile all of Kubernetes again.
e2e: ## the end-to-end tests: on a control plane of their own, and the AWS provider on its fake EC2
	cd cmd/kerf-controller && $(GO) vet ./... && $(GO) test -vet=off ./...
	cd lab && $(GO) vet $(PREBUILT) ./... && $(GO) test -vet=off -p 1 -timeout 30m $(PREBUILT) ./...

bench: bin/kerf ## Go benchmarks, then Kerf and Karpenter on the same workloads: bench/RESULTS.md
	$(GO) test -run '^$$' -bench . -benchmem ./internal/catalog ./internal/constraint ./internal/lp ./internal/solve ./internal/plan ./internal/source ./internal/intake
	$(GO) run ./bench

FUZZTIME ?= 30s
fuzz: ## run every fuzz target for FUZZTIME (default 30s)
	@set -e; for f in $$(grep -rlE '^func Fuzz' --include='*_test.go' api internal); do \
	  for t in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9]+).*/\1/p' $$f); do \
	    echo "$$t in $$(dirname $$f)"; $(GO) test ./$$(dirname $$f) -run '^$$' -fuzz "^$$t\$$" -fuzztime $(FUZZTIME); \
	  done; done
