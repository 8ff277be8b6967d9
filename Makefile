# Every target sets up what it needs by itself; only Python 3.11 or newer and make must be there.
# `./tool` does that work, and can be called without make.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help run demo test check fuzz soak bounds bench format lock clean

ROOT := $(dir $(lastword $(MAKEFILE_LIST)))

# The length and the seed of a long search.
DURATION ?= 60
SEED ?= 1
export DURATION SEED

# `run` and `demo` stay in the directory where make was typed, so that a relative path means what its writer meant.
# What is given on make's command line reaches the recipes in their environment, and is not pasted into shell text.
SERVICE := "$(ROOT)tool" runtime
GATE := cd "$(ROOT)" && ./tool dev

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' "$(firstword $(MAKEFILE_LIST))"

run: ## Start the API and workers with a demo owner and sample tasks (PORT= WORKERS= DATABASE=)
	@$(SERVICE) fencepost up --demo $${PORT:+--port "$$PORT"} $${WORKERS:+--workers "$$WORKERS"} \
	    $${DATABASE:+--database "$$DATABASE"}

demo: ## Prove the main job once: import, export, download, compare (INPUT= OUTPUT= ON_ERROR=)
	@$(SERVICE) fencepost demo $${INPUT:+--input "$$INPUT"} $${OUTPUT:+--output "$$OUTPUT"} \
	    $${ON_ERROR:+--on-error "$$ON_ERROR"}

test: ## Run all tests, then fuzz the contract (DURATION= SEED=; ARGS= goes to pytest)
	@$(GATE) python -m pytest $(ARGS)
	@$(GATE) python -m tests.contract.fuzz --duration "$$DURATION" --seed "$$SEED"

check: ## Check format, lint, types, import contracts, dependencies and generated documents
	@$(GATE) ruff format --check
	@$(GATE) ruff check
	@$(GATE) mypy
	@$(GATE) lint-imports --no-logo
	@$(GATE) deptry src
	@$(GATE) fencepost openapi --check
	@$(GATE) fencepost lifecycle --check

fuzz: ## Fuzz the committed contract against a live server (DURATION= in seconds, SEED=)
	@$(GATE) python -m tests.contract.fuzz --duration "$$DURATION" --seed "$$SEED"

soak: ## Kill, stop and restart the service under load, then judge what is left (DURATION= in seconds, SEED=)
	@$(GATE) python -m tests.soak --duration "$$DURATION" --seed "$$SEED"

bounds: ## Count what a claim costs with a million jobs queued and a million ended (JOBS=)
	@$(GATE) python -m tests.adapters.sqlite.claim_bounds $${JOBS:+--jobs "$$JOBS"}

bench: ## Run all benchmarks, or one (ONLY=); prints a table, writes a JSON file
	@$(GATE) python -m benchmarks $${ONLY:+"$$ONLY"}

format: ## Rewrite the code in the house format and apply the safe fixes
	@$(GATE) ruff format
	@$(GATE) ruff check --fix

lock: ## Pin all requirements anew, with hashes (needs uv; UPGRADE=1 takes newer versions)
	@cd "$(ROOT)" && scripts/lock

clean: ## Remove the environment, the caches and what builds left
	@cd "$(ROOT)" && rm -rf .venv .venv.lock build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	    .import_linter_cache .schemathesis .bench .fuzz
	@cd "$(ROOT)" && find . -name __pycache__ -type d -prune -exec rm -rf {} +
