# All commands of this repository: `make` lists the targets.

PYTHON ?= python3
VENV := .venv
PROTO_VENV := .venv-proto
ADAPTERS_VENV := .venv-adapters
CLIENTS_HTTP_VENV := .venv-clients-http
CLIENTS_OIP_VENV := .venv-clients-oip
CLIENTS_TEI_VENV := .venv-clients-tei
CLIENTS_MORE_VENV := .venv-clients-more
BULK_VENV := .venv-bulk
FAMILIES_VENV := .venv-families
REAL_VENV := .venv-real
PEERS_VENV := .venv-peers
PEERS_ONNX_VENV := .venv-peers-onnx
INFINITY_VENV := .venv-infinity
FASTEMBED_VENV := .venv-fastembed
VLLM_VENV := .venv-vllm
RELEASE_VENV := .venv-release
GPU_VENV := .venv-gpu
DEPLOY_VENV := .venv-deploy
DOCS_VENV := .venv-docs
NOTEBOOKS_VENV := .venv-notebooks
PY := $(VENV)/bin/python
PROTO_PY := $(PROTO_VENV)/bin/python
ADAPTERS_PY := $(ADAPTERS_VENV)/bin/python
FAMILIES_PY := $(FAMILIES_VENV)/bin/python
REAL_PY := $(REAL_VENV)/bin/python
DEPLOY_PY := $(DEPLOY_VENV)/bin/python

# ONNX Runtime's Linux builds may send usage reports; this disables them.
export ORT_DISABLE_TELEMETRY := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The oldest version whose stubs work with protobuf 6 and 7; so it has an environment of its own.
PROTO_TOOLS := grpcio-tools==1.76.0
PROTO := proto/headlight/v1/headlight.proto
STUBS := headlight_pb2.py headlight_pb2.pyi headlight_pb2_grpc.py

EXTRAS := runtime,openvino,serve,parquet,plot,completion,train,export,int8,dev
SETUP := $(VENV)/.installed
PROTO_SETUP := $(PROTO_VENV)/.installed
ADAPTERS_SETUP := $(ADAPTERS_VENV)/.installed
CLIENTS_HTTP_SETUP := $(CLIENTS_HTTP_VENV)/.installed
CLIENTS_OIP_SETUP := $(CLIENTS_OIP_VENV)/.installed
CLIENTS_TEI_SETUP := $(CLIENTS_TEI_VENV)/.installed
CLIENTS_MORE_SETUP := $(CLIENTS_MORE_VENV)/.installed
BULK_SETUP := $(BULK_VENV)/.installed
FAMILIES_SETUP := $(FAMILIES_VENV)/.installed
REAL_SETUP := $(REAL_VENV)/.installed
PEERS_SETUP := $(PEERS_VENV)/.installed
PEERS_ONNX_SETUP := $(PEERS_ONNX_VENV)/.installed
INFINITY_SETUP := $(INFINITY_VENV)/.installed
FASTEMBED_SETUP := $(FASTEMBED_VENV)/.installed
VLLM_SETUP := $(VLLM_VENV)/.installed
RELEASE_SETUP := $(RELEASE_VENV)/.installed
DEPLOY_SETUP := $(DEPLOY_VENV)/.installed
DOCS_SETUP := $(DOCS_VENV)/.installed
NOTEBOOKS_SETUP := $(NOTEBOOKS_VENV)/.installed
GPU_SETUP := $(GPU_VENV)/.installed
ALL_PEERS := $(PEERS_SETUP) $(PEERS_ONNX_SETUP) $(INFINITY_SETUP) $(FASTEMBED_SETUP) $(REAL_SETUP)

MODELS := docs-rope docs-sinusoidal
REVERSING := reverse-learned
MANIFESTS := $(MODELS:%=build/bundles/%/manifest.json) build/bundles/$(REVERSING)/manifest.json
# Everything that can change a graph, its weights or its parity report.
ENCODER := model/headlight_model
EXPORT_SOURCES := $(filter-out $(ENCODER)/demo.py,$(wildcard $(ENCODER)/*.py $(ENCODER)/layers/*.py $(ENCODER)/positions/*.py)) \
	$(shell find export/headlight_export headlight/runtime -name '*.py')

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup dependencies dist install-check proto proto-check train evaluate evaluate-evidence lab export run demo test test-export test-training adapters bulk clients clients-http clients-oip clients-tei clients-more families families-table real-model system bench-check deploy-check image-check image-try lock sbom release-check soak soak-messages faults tune monitoring docs notebooks lint format bench bulk-bench gpu-bench serving clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(SETUP) ## create .venv with the pinned dependencies

# A .pth puts the four roots on the path, as an installed package: no copy, no import hook.
$(SETUP): pyproject.toml constraints.txt deploy/checkout.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headlight needs Python 3.11 or later, this is " + sys.version)'
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@echo "Installing the pinned dependencies into $(VENV); the first time takes some minutes."
	@$(PY) deploy/checkout.py requirements $(EXTRAS) >$(VENV)/requirements.txt
	@$(PY) -m pip install --quiet --constraint constraints.txt --requirement $(VENV)/requirements.txt
	@$(PY) -m pip uninstall -qq --yes headlight # the editable installation of earlier checkouts
	@$(PY) deploy/checkout.py link
	@touch $@

$(PROTO_SETUP): Makefile
	@test -x $(PROTO_PY) || $(PYTHON) -m venv $(PROTO_VENV)
	@$(PROTO_PY) -m pip install --quiet $(PROTO_TOOLS)
	@touch $@

# protoc's virtual path makes the stubs import each other as headlight.pb, without patching.
generate = $(PROTO_PY) -m grpc_tools.protoc -Iheadlight/pb=$(dir $(PROTO)) --python_out=$(1) --pyi_out=$(1) --grpc_python_out=$(1) $(PROTO)

# The contract's descriptors with its comments, for the site and for /openapi.json.
CONTRACT := build/contract.binpb
OPENAPI := service/headlight_service/frontends/http/openapi.json
describe = mkdir -p build && $(PROTO_PY) -m grpc_tools.protoc -I$(dir $(PROTO)) --include_source_info --descriptor_set_out=$(CONTRACT) $(PROTO)

# Public contracts, as descriptors and a .pyi: FOLDER/NAME below proto, and the files without
# suffix. The default pool of protobuf may hold another copy of them, so they have no stubs.
PUBLIC := inference/inference tei/v1/tei
inference_files := service/headlight_service/frontends/oip/inference_messages
tei_files := service/headlight_service/frontends/grpc/tei/tei_messages
files_of = $($(notdir $(1))_files)
describe_public = mkdir -p $(3) && $(PROTO_PY) -m grpc_tools.protoc -Iproto --include_imports --descriptor_set_out=$(2).binpb --pyi_out=$(3) proto/$(1).proto \
	&& mv $(3)/$(1)_pb2.pyi $(2).pyi

proto: $(PROTO_SETUP) ## regenerate headlight/pb, the descriptors of public contracts and the OpenAPI document, which are committed
	$(call generate,.)
	mkdir -p headlight/$(dir $(PROTO)) && cp $(PROTO) headlight/$(PROTO)
	$(foreach name,$(PUBLIC),$(call describe_public,$(name),$(call files_of,$(name)),build/proto) &&) true
	$(describe) && $(PROTO_PY) -m docs.site.openapi $(CONTRACT) > $(OPENAPI)

# Fails if a stub was edited by hand, or the contract changed without `make proto`.
proto-check: $(PROTO_SETUP)
	@rm -rf build/proto && mkdir -p build/proto
	@$(call generate,build/proto)
	@for stub in $(STUBS); do diff -u headlight/pb/$$stub build/proto/headlight/pb/$$stub \
		|| { echo "headlight/pb/$$stub is not what $(PROTO) generates: run 'make proto'" >&2; exit 1; }; done
	@$(foreach name,$(PUBLIC),$(call describe_public,$(name),build/proto/$(notdir $(name)),build/proto) &&) true
	@$(foreach name,$(PUBLIC),for kind in binpb pyi; do cmp build/proto/$(notdir $(name)).$$kind $(call files_of,$(name)).$$kind \
		|| { echo "$(call files_of,$(name)).$$kind is not what proto/$(name) generates: run 'make proto'" >&2; exit 1; }; done;)
	@$(describe) && $(PROTO_PY) -m docs.site.openapi $(CONTRACT) | cmp - $(OPENAPI) || { echo "$(OPENAPI) is not what $(PROTO) generates: run 'make proto'" >&2; exit 1; }
	@cmp $(PROTO) headlight/$(PROTO) || { echo "headlight/$(PROTO) is no copy of $(PROTO): run 'make proto'" >&2; exit 1; }

# The shipped docs-sinusoidal is of an earlier recipe; MODEL=docs-sinusoidal uses the present one.
MODEL ?= docs-rope
train: $(SETUP) ## train docs-rope again into model/headlight_model/checkpoints, in stages (STAGE=1; then STAGE=2 RESUME=1, and so on)
	$(PY) -m headlight_model.train --positions $(MODEL:docs-%=%) --out model/headlight_model/checkpoints/$(MODEL) $(STAGE:%=--stage %) $(if $(RESUME),--resume)

evaluate: $(SETUP) ## measure the shipped models on held-out packages and modules (PREVIOUS=DIR: beside an earlier docs-rope); writes bench/results/evaluation.md
	$(PY) -m headlight_model.evaluate $(MODELS:%=model/headlight_model/checkpoints/%) $(PREVIOUS:%=--previous %) --out bench/results/evaluation.md

evaluate-evidence: $(SETUP) build/bundles/docs-rope/manifest.json ## measure what evidence and span vectors find and cost (PARTS="planted deletion chunking cost": some of these); writes bench/results/evidence.md
	$(PY) -m bench.evidence $(if $(PARTS),--parts $(PARTS))

# QUICK=1 only checks that everything runs, and changes no committed file. The shipped checkpoint is
# the one that the page describes.
lab: $(SETUP) ## train small models with each position scheme, compare and plot them; writes docs/positions.md (two hours; QUICK=1: a minute; EXPERIMENT=reverse: one thing, in minutes)
	$(PY) -m headlight_model.lab $(if $(QUICK),--quick) $(EXPERIMENT:%=--experiment %)
	$(if $(QUICK)$(EXPERIMENT),,cp -rT build/lab/reverse-16-learned-seed0 model/headlight_model/checkpoints/$(REVERSING))

export: $(MANIFESTS) ## export the checkpoints as bundles to build/bundles, checked against PyTorch

$(MANIFESTS): build/bundles/%/manifest.json: \
		model/headlight_model/checkpoints/%/config.json model/headlight_model/checkpoints/%/model.safetensors model/headlight_model/checkpoints/%/tokenizer.json \
		$(EXPORT_SOURCES) | $(SETUP)
	$(PY) -m headlight export model/headlight_model/checkpoints/$* --out $(@D)
	@touch $@ # newer than its sources, even if the exporter changed nothing

# Options found by `make tune`, used only by `make run` and `make demo`.
TUNED := build/tuned.env
tuned := set -a; test ! -f $(TUNED) || . ./$(TUNED); set +a;
BUNDLE ?= build/bundles/docs-rope
PRECISION ?= fp32

tune: $(SETUP) build/bundles/docs-rope/manifest.json ## find this machine's fastest options (a minute or two; BUNDLE=..., PRECISION=...)
	$(PY) -m headlight_service.app.tuning --bundle $(BUNDLE) --precision $(PRECISION) --out $(TUNED)

# ONNX Runtime for CUDA installs the same files as that for CPUs. So it has an environment of its
# own: the packages of the image, and all others from .venv.
$(GPU_SETUP): deploy/image/requirements-gpu.txt $(SETUP)
	@test -x $(GPU_VENV)/bin/python || $(PY) -m venv $(GPU_VENV)
	@$(GPU_VENV)/bin/python deploy/checkout.py link --see "$$($(PY) $(SITE_PACKAGES))"
	@echo "Installing $< into $(GPU_VENV): some gigabytes."
	@$(GPU_VENV)/bin/python -m pip install --quiet --require-hashes --no-deps --ignore-installed --only-binary :all: --requirement $<
	@touch $@

# GPU=1 ignores the options of `make tune`, which are for the CPU.
demonstrated = $(if $(GPU),HEADLIGHT_PROVIDER=cuda $(GPU_VENV)/bin/python,$(tuned) $(PY)) -m headlight_model.demo --bundle build/bundles/docs-rope \
	$(GRPC:%=--grpc %) $(HTTP:%=--http %) $(REST:%=--rest %)
DEMONSTRATED := $(if $(GPU),$(GPU_SETUP),$(SETUP)) build/bundles/docs-rope/manifest.json

run: $(DEMONSTRATED) ## start the service, show one real answer, serve until Ctrl-C (GPU=1: on a GPU; GRPC=..., HTTP=..., REST=HOST:PORT: elsewhere)
	@$(demonstrated)

demo: $(DEMONSTRATED) ## the same, and exit 0 after the answer
	@$(demonstrated) --once

# Nothing is published.
dist: $(SETUP) $(RELEASE_SETUP) build/bundles/docs-rope/manifest.json ## wheel, source archive and release notes in dist/, checked and tried (minutes)
	$(PY) -m deploy.distribution dist --bundle build/bundles/docs-rope
	$(RELEASE_VENV)/bin/twine check --strict dist/*.whl dist/*.tar.gz
	$(INSTALL_CHECK) --wheel dist/*.whl

INSTALL_CHECK = $(PY) -m pytest tests/install --timeout=1200

install-check: $(SETUP) build/bundles/docs-rope/manifest.json ## install the wheel into an empty environment, run README's lines and each example of --help there (minutes; REPORT=1: writes bench/results/install.md)
	tests/system/require.sh openssl
	$(INSTALL_CHECK) $(if $(REPORT),--report bench/results/install.md)

# In environments of their own, as a user makes them, at once. -rP shows the versions.
dependencies: $(SETUP) $(RELEASE_SETUP) ## run README's install line without constraints, with the newest and the oldest dependencies, and check all numbers there (minutes)
	$(PY) -m pytest tests/dependencies --timeout=1200 --numprocesses=2 -rP

# One process per core, up to four, because each loads PyTorch; one thread each, because more would
# compete for the cores.
spread = OMP_NUM_THREADS=1 $(1) -m pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal

test: $(SETUP) ## run the tests that need no other process, machine or network
	$(call spread,$(PY))

test-export: $(SETUP) ## run the tests of the exporter
	$(call spread,$(PY)) tests/export

test-training: $(SETUP) ## run the tests of training, evaluation and the lab
	$(call spread,$(PY)) tests/model/train tests/model/evaluate tests/model/lab

SITE_PACKAGES := -c 'import sysconfig; print(sysconfig.get_path("purelib"))'

# Third-party tools of half a gigabyte, with conflicting requirements. So each list has an
# environment of its own, which adds its packages to those of .venv (torch above all).
$(ADAPTERS_SETUP): tests/adapters/requirements.txt
$(CLIENTS_HTTP_SETUP): tests/clients/http/requirements.txt
$(CLIENTS_OIP_SETUP): tests/clients/oip/requirements.txt
$(CLIENTS_TEI_SETUP): tests/clients/tei/requirements.txt
$(CLIENTS_MORE_SETUP): tests/clients/more/requirements.txt
$(BULK_SETUP): tests/bulk/requirements.txt
$(FAMILIES_SETUP): tests/families/requirements.txt
$(REAL_SETUP): tests/real/requirements.txt
$(PEERS_SETUP): bench/peers/openvino.txt
$(PEERS_ONNX_SETUP): bench/peers/onnx.txt
$(INFINITY_SETUP): bench/peers/infinity.txt
$(FASTEMBED_SETUP): bench/peers/fastembed.txt
$(VLLM_SETUP): bench/peers/vllm.txt
$(DEPLOY_SETUP): deploy/check/requirements.txt
$(NOTEBOOKS_SETUP): docs/notebooks/requirements.txt
ALL_CLIENTS := $(CLIENTS_HTTP_SETUP) $(CLIENTS_OIP_SETUP) $(CLIENTS_TEI_SETUP) $(CLIENTS_MORE_SETUP)
$(ADAPTERS_SETUP) $(ALL_CLIENTS) $(BULK_SETUP) $(DEPLOY_SETUP) $(NOTEBOOKS_SETUP) $(FAMILIES_SETUP) $(ALL_PEERS) $(VLLM_SETUP): %/.installed: $(SETUP)
	@test -x $*/bin/python || $(PY) -m venv $*
	@$*/bin/python deploy/checkout.py link --see "$$($(PY) $(SITE_PACKAGES))"
	@echo "Installing $(filter %.txt,$^) into $*; the first time takes some minutes."
	@$*/bin/python -m pip install --quiet --no-deps --requirement $(filter %.txt,$^)
	@touch $@

adapters: $(ADAPTERS_SETUP) ## test the adapters against BertViz, TransformerLens, LIT and Hugging Face
	$(ADAPTERS_PY) -m pytest tests/adapters

# Their pages in docs/clients are run as written.
clients: clients-http clients-oip clients-tei ## test the frontends by the clients that users have

clients-http: $(CLIENTS_HTTP_SETUP) build/bundles/docs-rope/manifest.json ## test the HTTP frontend by other people's clients: openai
	$(CLIENTS_HTTP_VENV)/bin/python -m pytest tests/clients/http --timeout=300

clients-oip: $(CLIENTS_OIP_SETUP) build/bundles/docs-rope/manifest.json ## test the Open Inference Protocol with Triton's own client
	$(CLIENTS_OIP_VENV)/bin/python -m pytest tests/clients/oip --timeout=300

# docs/clients/huggingface-hub.md and docs/clients/haystack.md are run as written.
clients-tei: $(CLIENTS_TEI_SETUP) build/bundles/docs-rope/manifest.json ## test the interface of text-embeddings-inference with huggingface_hub, Haystack and its own stubs
	$(CLIENTS_TEI_VENV)/bin/python -m pytest tests/clients/tei --timeout=300

# Not part of .ci/run: half a gigabyte. Most of these classes have no way to close their
# connections.
clients-more: $(CLIENTS_MORE_SETUP) build/bundles/docs-rope/manifest.json ## test with LangChain, LlamaIndex, LiteLLM, Chroma, KServe and openai for Node; writes bench/results/clients.md
	tests/system/require.sh node npm
	$(CLIENTS_MORE_VENV)/bin/python -m pytest tests/clients/more --timeout=300 -W ignore::ResourceWarning --report bench/results/clients.md

# Not part of .ci/run, for Ray alone is half a gigabyte: run by who touches what it tests.
bulk: $(BULK_SETUP) build/bundles/docs-rope/manifest.json ## test bulk jobs with real Ray, an object store and kills, 200,000 rows (half an hour; ROWS=...: fewer; REPORT=1: writes bench/results/bulk-faults.json)
	$(BULK_VENV)/bin/python -m pytest tests/bulk --timeout=3600 $(ROWS:%=--rows %) $(if $(REPORT),--report bench/results/bulk-faults.json)

families: $(FAMILIES_SETUP) ## test imported models against transformers and sentence-transformers, over the wire
	$(call spread,$(FAMILIES_PY)) tests/families --timeout=600

real-model: $(REAL_SETUP) ## export and serve all-MiniLM-L6-v2, and compare it with sentence-transformers (REPORT=1: writes bench/results/real-model.md)
	OMP_NUM_THREADS=1 $(REAL_PY) -m pytest tests/real --timeout=1200 $(if $(REPORT),--report bench/results/real-model.md)

families-table: $(FAMILIES_SETUP) ## the same, as a table of distances; writes bench/results/families.md
	$(FAMILIES_PY) -W ignore -m tests.families.table

# Two processes, by file: tests of a file share services. More would starve the services of time.
system: $(SETUP) $(MANIFESTS) ## run the tests with real processes and clients; installs the Debian packages they need
	tests/system/require.sh curl node npm nginx openssl prometheus promtool chromium zsh
	OMP_NUM_THREADS=1 $(PY) -m pytest tests/system --timeout=600 --numprocesses=2 --dist=loadfile

bench-check: $(SETUP) $(MANIFESTS) ## run the benchmarks in small, to check that they work and report all criteria
	$(PY) -m pytest tests/benches --timeout=600

IMAGE := deploy/image
# Everything that the image contains.
IMAGE_SOURCES := $(IMAGE)/install.sh $(IMAGE)/requirements-cpu.txt LICENSE NOTICE $(shell find headlight service/headlight_service -type f -not -name '*.pyc')

$(RELEASE_SETUP): $(IMAGE)/tools.txt
	@test -x $(RELEASE_VENV)/bin/python || $(PYTHON) -m venv $(RELEASE_VENV)
	@echo "Installing $< into $(RELEASE_VENV)"
	@$(RELEASE_VENV)/bin/python -m pip install --quiet --require-hashes --no-deps --only-binary :all: --requirement $<
	@touch $@

image-check: $(SETUP) $(RELEASE_SETUP) build/bundles/docs-rope/manifest.json ## install the image's content into an empty folder and serve from it as another user; no container engine needed
	$(PY) -m pytest tests/image --timeout=1200 # the first test includes downloading and installing

image-try: $(SETUP) build/bundles/docs-rope/manifest.json ## build the CPU image with buildah on a base made by debootstrap, and serve from it read-only (root, Debian, minutes)
	$(IMAGE)/try.sh $(PY) build/bundles/docs-rope

lock: $(RELEASE_SETUP) ## resolve the image's packages again, with digests, into deploy/image/*.txt
	$(IMAGE)/lock.sh $(RELEASE_VENV)/bin/uv

build/image/cpu/.installed: $(IMAGE_SOURCES) | $(SETUP)
	@rm -rf $(@D)
	PIP="$(PY) -m pip" $(IMAGE)/install.sh cpu $(@D)
	@touch $@

sbom: $(RELEASE_SETUP) build/image/cpu/.installed ## list the packages of the CPU image as CycloneDX; writes build/sbom-cpu.cdx.json
	$(IMAGE)/sbom.sh $(RELEASE_VENV)/bin/cyclonedx-py build/image/cpu/venv/bin/python build/sbom-cpu.cdx.json

# Not part of .ci/run: it queries a package index and a vulnerability service, and fails without.
release-check: $(RELEASE_SETUP) proto-check ## check versions, digests, licences and known vulnerabilities before a release (needs the network)
	$(RELEASE_VENV)/bin/python -m deploy.image.release

deploy-check: $(DEPLOY_SETUP) build/bundles/docs-rope/manifest.json ## check everything under deploy/ that needs no cluster; needs kubectl 1.31 or later
	tests/system/require.sh kubectl node npm promtool
	$(DEPLOY_PY) -m deploy.check
	$(DEPLOY_PY) -m pytest tests/deploy --timeout=600

soak: $(SETUP) build/bundles/docs-rope/manifest.json ## run 30 minutes of load and faults, 200,000 mutated requests, then 100,000 connections with mutated frames (70 minutes)
	$(PY) -m tests.soak --minutes 30 --doors 200000 --path-seconds 60 --frames 100000

# Two minutes of load: half a minute is too short to judge memory.
soak-messages: $(SETUP) build/bundles/docs-rope/manifest.json ## send 10 million mutated messages (100 minutes)
	$(PY) -m tests.soak --minutes 2 --fuzz 10000000 --out bench/results/soak-messages.md

# The page also lists a fault that breaks a promise; the target then fails.
faults: $(SETUP) $(MANIFESTS) ## inject every fault of the matrix, twenty minutes on 2 idle cores; writes docs/reliability.md
	tests/system/require.sh cc nginx openssl
	$(PY) -m tests.faults; code=$$?; $(PY) -m tests.faults.report && exit $$code

monitoring: $(SETUP) ## generate the PrometheusRule and the Grafana dashboard from the rules and the metrics
	$(PY) -m deploy.prometheus
	$(PY) -m deploy.grafana

$(DOCS_SETUP): docs/requirements.txt
	@test -x $(DOCS_VENV)/bin/python || $(PYTHON) -m venv $(DOCS_VENV)
	@echo "Installing $< into $(DOCS_VENV)"
	@$(DOCS_VENV)/bin/python -m pip install --quiet --no-deps --requirement $<
	@touch $@

# Zensical reads build/zensical.toml and build/docs, which docs.site writes. A broken link, a page
# outside the navigation, or an element of the contract without a comment fails.
docs: $(SETUP) $(DOCS_SETUP) $(PROTO_SETUP) ## build the documentation site into build/site; a broken link fails
	@rm -rf build/site && $(describe)
	@$(PY) -m docs.site build $(CONTRACT)
	@$(DOCS_VENV)/bin/zensical build --strict --clean --config-file build/zensical.toml
	@$(PY) -m docs.site.built build/site
	@echo "The site: build/site/index.html. To read it with search: $(PY) -m http.server --bind 127.0.0.1 --directory build/site"

notebooks: $(NOTEBOOKS_SETUP) build/bundles/docs-rope/manifest.json ## run the notebooks of docs/notebooks in place and keep their outputs (ONLY=search: one of them)
	$(NOTEBOOKS_VENV)/bin/python -m docs.notebooks.execute $(ONLY)

lint: $(SETUP) proto-check ## check formatting, ruff, mypy --strict, and that stubs match the contract
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

format: $(SETUP) ## format the code as `make lint` requires
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

bench: $(SETUP) build/bundles/docs-rope/manifest.json serving ## run all benchmarks: attention in each form, precisions, the front, one call by step, and Headlight beside its peers
	$(PY) -m bench.embed_vs_attend
	$(PY) -m bench.attention
	$(PY) -m bench.precision
	$(PY) -m bench.front
	$(PY) -m bench.one_call
	$(PY) -m bench.attention_bf16

build/serving/model/modules.json: bench/minilm.py | $(REAL_SETUP)
	$(REAL_PY) -m bench.minilm build/serving
	@touch $@

build/serving/bundle/manifest.json: build/serving/model/modules.json $(EXPORT_SOURCES) | $(SETUP)
	$(PY) -m headlight export build/serving/model --out $(@D) --provider openvino --precision int8
	@touch $@

serving: build/serving/bundle/manifest.json $(ALL_PEERS) $(if $(VLLM),$(VLLM_SETUP)) ## measure Headlight beside sentence-transformers, fastembed and infinity, and vLLM (VLLM=1: installs it, 900 MB); writes bench/results/serving.md
	$(PY) -m bench.serving
	$(PY) -m bench.engine
	$(PY) -m bench.doors

bulk-bench: build/serving/bundle/manifest.json $(BULK_SETUP) $(ALL_PEERS) ## measure bulk jobs from Parquet to Parquet beside their peers; writes bench/results/bulk.md
	$(PY) -m bench.bulk

gpu-bench: $(GPU_SETUP) ## measure parity and speed on a GPU (needs PyTorch for CUDA): 8 minutes once prepared; writes bench/results/gpu.md
	$(GPU_VENV)/bin/python -m bench.gpu prepare
	$(GPU_VENV)/bin/python -m bench.gpu

clean: ## remove build outputs; environments and checkpoints stay
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
