# nightaudit: what can be done here. `make` alone lists it.

GO        ?= go
BIN       := $(CURDIR)/bin
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null)
FUZZTIME  ?= 10s
BENCH     ?= .
TESTFLAGS ?=

# The linter is pinned: another version finds other things.
GOLANGCI_VERSION := 2.15.0
GOLANGCI         := $(BIN)/golangci-lint-$(GOLANGCI_VERSION)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/nightaudit
	$(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o $(BIN)/nightaudit ./cmd/nightaudit

.PHONY: test
test: ## run all tests
	$(GO) test $(TESTFLAGS) ./...

.PHONY: race
race: ## run all tests with the race detector
	$(GO) test -race -timeout 20m $(TESTFLAGS) ./...

.PHONY: vet
vet: ## run go vet
	$(GO) vet ./...

.PHONY: lint
lint: $(GOLANGCI) ## run golangci-lint
	$(GOLANGCI) run ./...

.PHONY: fmt
fmt: ## fail if a file is not as gofmt writes it
	@files=$$(gofmt -l .) || exit 1; \
	if [ -n "$$files" ]; then echo "not as gofmt writes them (gofmt -w):"; echo "$$files"; exit 1; fi

.PHONY: tidy
tidy: ## fail if go.mod or go.sum is not tidy
	$(GO) mod tidy -diff

.PHONY: check
check: fmt vet tidy lint race ## all that a change must pass

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (10s)
	@grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sort | \
	while IFS=: read -r file target; do \
		target=$${target#func }; dir=$$(dirname "$$file"); \
		echo "$$dir $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$dir" </dev/null || exit 1; \
	done

.PHONY: bench
bench: ## measure what must hold, of what matches BENCH (all)
	@mkdir -p $(BIN)
	@$(GO) build -o $(BIN)/bench ./internal/bench
	@$(BIN)/bench -run '$(BENCH)'

.PHONY: microbench
microbench: ## run the go benchmarks that match BENCH (all)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $(TESTFLAGS) ./...

.PHONY: golden
golden: ## write the golden files anew, for review
	@dirs=$$(grep -rlE --include='*_test.go' 'flag\.Bool\("update"' . | xargs -r -n1 dirname | sort -u); \
	if [ -z "$$dirs" ]; then echo "no package has golden files"; exit 1; fi; \
	$(GO) test $$dirs -args -update

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN) dist

# The pinned linter: one that is installed already, or else built from source,
# which takes a few minutes.
$(GOLANGCI):
	@mkdir -p $(BIN)
	@for found in "$$(command -v golangci-lint)" "$$($(GO) env GOBIN)/golangci-lint" "$$($(GO) env GOPATH)/bin/golangci-lint"; do \
		if [ -x "$$found" ] && [ "$$("$$found" version --short 2>/dev/null)" = "$(GOLANGCI_VERSION)" ]; then \
			echo "using $$found"; cp "$$found" $@.tmp && mv $@.tmp $@; exit; \
		fi; \
	done; \
	echo "installing golangci-lint $(GOLANGCI_VERSION)"; \
	GOBIN=$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(GOLANGCI_VERSION) && \
	mv $(BIN)/golangci-lint $@
