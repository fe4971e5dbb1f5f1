# The commands of this repository: `make` lists them. Rarer ones, and those with an environment of
# their own, are in noxfile.py: `.venv/bin/nox -l` lists them.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
NOX := $(VENV)/bin/nox --session

# ONNX Runtime's Linux builds may send usage reports; this disables them.
export ORT_DISABLE_TELEMETRY := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# With it, each process that the tests start would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

EXTRAS := runtime,openvino,serve,parquet,plot,completion,train,export,int8,dev
SETUP := $(VENV)/.installed

CHECKPOINTS := $(addprefix model/headlight_model/checkpoints/,docs-rope docs-rerank docs-sinusoidal) lab/checkpoints/reverse-learned
# Everything that can change a graph, its weights or its parity report.
ENCODER := model/headlight_model
EXPORT_SOURCES := $(filter-out $(ENCODER)/demo.py,$(wildcard $(ENCODER)/*.py $(ENCODER)/layers/*.py $(ENCODER)/positions/*.py)) \
	$(shell find export/headlight_export headlight/runtime -name '*.py')
manifest = build/bundles/$(notdir $(1))/manifest.json
MANIFESTS := $(foreach each,$(CHECKPOINTS),$(call manifest,$(each)))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup export tune run demo test system lint format proto docs dist verify-release clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "rarer jobs: .venv/bin/nox -l"

setup: $(SETUP) ## create .venv with the pinned dependencies

# A .pth puts the roots on the path, as an installed package: no copy, no import hook.
$(SETUP): pyproject.toml constraints.txt deploy/checkout.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headlight needs Python 3.11 or later, this is " + sys.version)'
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@echo "Installing the pinned dependencies into $(VENV); the first time takes some minutes."
	@$(PY) deploy/checkout.py requirements $(EXTRAS) >$(VENV)/requirements.txt
	@$(PY) -m pip install --quiet --constraint constraints.txt --requirement $(VENV)/requirements.txt
	@$(PY) deploy/checkout.py link
	@touch $@

export: $(MANIFESTS) ## export the checkpoints as bundles to build/bundles, checked against PyTorch

define exported
$(call manifest,$(1)): $(1)/config.json $(1)/model.safetensors $(1)/tokenizer.json $(EXPORT_SOURCES) | $(SETUP)
	$(PY) -m headlight export $(1) --out $$(@D)
	@touch $$@ # newer than its sources, even if the exporter changed nothing
endef
$(foreach each,$(CHECKPOINTS),$(eval $(call exported,$(each))))

# Options found by `make tune`, used only by `make run` and `make demo`.
TUNED := build/tuned.env
BUNDLE ?= build/bundles/docs-rope
PRECISION ?= fp32
DIR ?= dist

tune: build/bundles/docs-rope/manifest.json ## find this machine's fastest options (a minute or two; BUNDLE=..., PRECISION=...)
	$(PY) -m headlight tune $(BUNDLE) --precision $(PRECISION) --out $(TUNED)

# GPU=1 ignores the options of `make tune`, which are for the CPU. That needs an environment of its own.
demonstrated = $(if $(GPU),HEADLIGHT_PROVIDER=cuda .nox/gpu/bin/python,set -a; test ! -f $(TUNED) || . ./$(TUNED); set +a; $(PY)) -m headlight_model.demo --bundle build/bundles/docs-rope --reranker build/bundles/docs-rerank \
	$(GRPC:%=--grpc %) $(METRICS:%=--metrics %) $(API:%=--api %)

run: build/bundles/docs-rope/manifest.json build/bundles/docs-rerank/manifest.json $(if $(GPU),.nox/gpu/bin/python) ## start the service, show one real answer, serve until Ctrl-C (GPU=1: on a GPU; GRPC=..., METRICS=..., API=HOST:PORT: elsewhere)
	@$(demonstrated)

.nox/gpu/bin/python: $(SETUP)
	$(NOX) gpu

demo: build/bundles/docs-rope/manifest.json build/bundles/docs-rerank/manifest.json $(if $(GPU),.nox/gpu/bin/python) ## the same, and exit 0 after the answer
	@$(demonstrated) --once

# One process per core, up to four, because each loads PyTorch; one thread each, because more would
# compete for the cores.
test: $(SETUP) ## run the tests that need no other process, machine or network
	OMP_NUM_THREADS=1 $(PY) -m pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal

# Two processes, by group: tests of a file share services, and so do those of small models
# (tests/system/conftest.py). More would starve the services of time.
system: $(MANIFESTS) ## run the tests with real processes and clients; installs the Debian packages they need
	tests/system/require.sh curl node npm nginx openssl prometheus promtool chromium zsh
	OMP_NUM_THREADS=1 $(PY) -m pytest tests/system --timeout=600 --numprocesses=2 --dist=loadgroup

lint: $(SETUP) ## check formatting, ruff, mypy --strict, imports, and that stubs match the contract
	$(NOX) proto-check
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

format: $(SETUP) ## format the code as `make lint` requires
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

proto: $(SETUP) ## generate the stubs and the OpenAPI document, which are committed
	$(NOX) proto

docs: $(SETUP) ## build the documentation site into build/site; a broken link fails
	$(NOX) docs

dist: $(MANIFESTS) ## make what a release has in dist/: wheel, source archive, image, SBOM, checksums; root, Debian
	$(NOX) dist

verify-release: $(SETUP) ## check the files of a release (DIR=dist)
	$(PY) -m deploy.verify_release $(DIR)

clean: ## remove build outputs; environments and checkpoints stay
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.venv*' -not -path './.nox*' -prune -exec rm -rf {} +
