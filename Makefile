# Kerf needs Go, gcc, make and git. The toolchain below is fetched by Go itself.
export GOTOOLCHAIN := go1.27.3
export CGO_ENABLED := 0
export GOFLAGS := -trimpath

GO    ?= go
DATA  ?= ../shared/data
TOOLS := $(GO) tool -modfile=tools/go.mod

.DEFAULT_GOAL := help
.PHONY: help build test verify update demo bench fuzz

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: bin/kerf ## build bin/kerf, and bin/kerf-compare with Karpenter's scheduler in it
	$(GO) build -o bin/kerf-compare ./cmd/kerf-compare

.PHONY: bin/kerf
bin/kerf:
	$(GO) build -o bin/kerf ./cmd/kerf

test: ## run every test
	$(GO) test ./...

verify: ## formatting, vet, staticcheck, tidy modules, generated files up to date
	@test -z "$$($(TOOLS) gofumpt -l . | tee /dev/stderr)" || { echo "run: make update"; exit 1; }
	$(GO) vet ./...
	$(TOOLS) staticcheck ./...
	$(GO) mod tidy -diff
	cd tools && $(GO) mod tidy -diff
	@if test -d $(DATA); then cd tools && $(GO) run ./books -data $(abspath $(DATA)) -verify; \
	else echo "books not compared: no source data in $(DATA)"; fi

update: ## format the code and rebuild the embedded books and golden files
	$(TOOLS) gofumpt -w .
	$(GO) mod tidy
	@if test -d $(DATA); then cd tools && $(GO) run ./books -data $(abspath $(DATA)); fi
	$(GO) test ./internal/solve ./internal/render ./cmd/kerf -update

demo: bin/kerf ## plan the examples and a fleet of 8,152 pods; ends with a picture
	@sh examples/demo.sh bin/kerf out

bench: ## Go benchmarks, then Kerf and Karpenter on the same workloads: bench/RESULTS.md
	$(GO) test -run '^$$' -bench . -benchmem ./internal/catalog ./internal/constraint ./internal/lp ./internal/solve ./internal/plan ./internal/source ./internal/intake
	$(GO) run ./bench

FUZZTIME ?= 30s
fuzz: ## run every fuzz target for FUZZTIME (default 30s)
	@set -e; for f in $$(grep -rlE '^func Fuzz' --include='*_test.go' api internal); do \
	  for t in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9]+).*/\1/p' $$f); do \
	    echo "$$t in $$(dirname $$f)"; $(GO) test ./$$(dirname $$f) -run '^$$' -fuzz "^$$t\$$" -fuzztime $(FUZZTIME); \
	  done; done
