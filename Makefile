SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help install check test test-ci test-all format lock grammar openapi bench clean

LIB := . scripts/lib.sh

help: ## List every target
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

install: ## Create .venv with everything that development needs
	@$(LIB); install_packages all

check: install ## Format, lint, types, contracts, corpus, scripts, unit tests without a graph: two minutes
	@$(LIB); static_checks; run_tests -q -n auto --maxprocesses 8 \
		-m "not slow and not extended and not disk" tests/unit tests/corpus tests/scripts

test: ## The default suite: at least one case of every promise, in ten minutes
	@scripts/test.sh

test-ci: ## What continuous integration runs: the default suite, then more cases of the same promises
	@.ci/run

test-all: ## The full products, hours of them, in named parts: PART="crash recovery" runs some
	@$(LIB); check_java; install_packages all; .venv/bin/python scripts/test_all.py $(PART)

format: install ## Format the code and fix what the linter can fix
	@.venv/bin/ruff check --fix --quiet . || true; .venv/bin/ruff format .

lock: ## Resolve requirements.lock anew, keeping what still fits (UPGRADE=1: the newest of all)
	@$(LIB); ensure_uv; .venv/bin/uv pip compile pyproject.toml --extra dev --extra connect --universal \
		--python-version 3.11 --generate-hashes --no-header --no-annotate --quiet \
		$(if $(UPGRADE),--upgrade) -o requirements.lock

grammar: install ## Build the parser tables beside the grammars
	@.venv/bin/python -m omnigraph.lang.grammar_tables

openapi: install ## Write the OpenAPI document of the server anew
	@.venv/bin/python -m omnigraph.server.openapi > docs/openapi.json

bench: install ## Run every benchmark
	@for file in benchmarks/{compile_queries,commits,writes,merges,queries,fresh_reads,steady,beside,serve}.py; do \
		if [ -e "$$file" ]; then .venv/bin/python "$$file"; else echo "no benchmarks yet" >&2; fi; \
	done

clean: ## Remove caches and build results; .venv stays
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage* \
		coverage.xml build dist
	@find src tests examples benchmarks -name __pycache__ -prune -exec rm -rf {} +
