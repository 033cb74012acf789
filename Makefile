# Argosy: `make train` for a first run, `make check test` before a commit.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READERS := .venv-readers/.installed
S3_SERVER := build/versitygw/.built
ON_CLUSTER := $(BIN)/python -m pytest --durations=10
BESIDE := -n $(or $(SIDE_BY_SIDE),3) --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help install train check test soak golden bench bench-cluster lock clean cluster-host cluster-build cluster-up cluster-down cluster-status test-cluster test-platform

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

install: $(INSTALLED)  ## .venv with everything from the lock files, by hash

# uv is installed by pip from its own lock, the rest by uv: the same checks of hashes, a tenth of the time. Bytecode is
# compiled now, so that no command pays for it later.
$(INSTALLED): requirements.lock bootstrap.lock
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else "Argosy needs Python 3.11, 3.12 or 3.13, this is %d.%d: make PYTHON=python3.11 ..." % v)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r bootstrap.lock
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes --compile-bytecode requirements.lock
	$(BIN)/python -m compileall -q components infra pipelines templates
	touch $@

# mosaicml-streaming wants other versions of numpy and xxhash than we use, and `wids` comes with an older webdataset. Only
# tests and benchmarks run these, as processes.
$(READERS): tests/readers.lock $(INSTALLED)
	test -x .venv-readers/bin/python || $(BIN)/uv venv --quiet --python $(BIN)/python .venv-readers
	$(BIN)/uv pip sync --quiet --python .venv-readers/bin/python --require-hashes --compile-bytecode tests/readers.lock
	touch $@

# The S3 tests talk to a real server. It is built with Go, modules checked against go.sum: about a minute, once.
$(S3_SERVER): tests/fakes/versitygw/go.mod tests/fakes/versitygw/go.sum $(INSTALLED)
	$(BIN)/python -m tests.fakes.s3_server
	touch $@

train: $(INSTALLED)  ## the default recipe on this machine, from shard to retain: about a minute
	$(BIN)/python pipelines/train.py submit --target local $(if $(CORPUS),--set shard.corpus=$(CORPUS) --set experiment=tiny-$(shell printf %s '$(abspath $(CORPUS))' | cksum | cut -d' ' -f1))

check: $(INSTALLED)  ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(INSTALLED) $(READERS) $(S3_SERVER)  ## every test that needs no cluster
	$(BIN)/python -m pytest -m "not cluster" -n 2 --dist worksteal

# Calm tests side by side, a namespace each; then, alone, those that take something of the cluster away. Without KUBECONFIG
# the development cluster is brought up, and left up.
test-cluster: $(INSTALLED)  ## tests on a real cluster: the one of KUBECONFIG (tests/cluster/README.md), else cluster-up
	@test -n "$$KUBECONFIG" || $(MAKE) --no-print-directory cluster-up
	@test -n "$$KUBECONFIG" || . build/devcluster/env; status=0; \
	$(ON_CLUSTER) -m "cluster and not platform and not disturbing" $(BESIDE) tests/cluster tests/conformance || status=1; \
	$(ON_CLUSTER) -m "cluster and disturbing" tests/cluster || status=1; exit $$status

test-platform: $(INSTALLED)  ## permissions, queues, tenants, GitOps, why: on the same cluster, to which Kueue is added
	@test -n "$$KUBECONFIG" || { $(MAKE) --no-print-directory cluster-up && $(BIN)/python -m infra.devcluster add kueue; }
	@test -n "$$KUBECONFIG" || . build/devcluster/env; $(ON_CLUSTER) -m "cluster and platform" $(BESIDE) tests/cluster

soak: $(INSTALLED)  ## the proofs at length: schedules, kills of writers, RUNS=50 whole runs killed at random; SEED=
	$(BIN)/python -m tests.soak $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.e2e.chaos --runs $(or $(RUNS),50) $(if $(SEED),--seed $(SEED))

golden: $(INSTALLED)  ## recompile every recipe into tests/golden
	$(BIN)/python -m pytest tests/test_golden.py --regenerate

bench: $(INSTALLED) $(READERS) $(S3_SERVER)  ## the speed and size figures of the README, as ratios in one run
	$(BIN)/python -m tests.benchmarks

bench-cluster: $(INSTALLED)  ## what submit, restarts and the launcher cost on the cluster of KUBECONFIG
	$(if $(KUBECONFIG),,. build/devcluster/env &&) $(BIN)/python -m tests.benchmarks cluster

lock: $(INSTALLED)  ## resolve the dependencies anew: names, versions and hashes, no hosts
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes --no-header --no-annotate -o requirements.lock pyproject.toml
	grep -E '^(torch|triton|nvidia-|cuda-)[a-z0-9-]*==' requirements.lock | cut -d' ' -f1 > $(VENV)/shared.txt
	printf '%s\n' 'mosaicml-streaming>=0.13' 'webdataset<0.3' 'datasets>=3' | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -c $(VENV)/shared.txt -o tests/readers.lock -
	echo 'uv>=0.9' | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -o bootstrap.lock -

cluster-host: $(INSTALLED)  ## install the Debian packages that a development cluster needs; as root
	$(BIN)/python -m infra.devcluster host

cluster-build: $(INSTALLED)  ## Kubernetes, Argo, JobSet, S3 and the images, with Go and buildah: once, then what changed
	$(BIN)/python -m infra.devcluster build

cluster-up: $(INSTALLED)  ## a Kubernetes of NODES=2 nodes with Argo and JobSet on this host; then source build/devcluster/env
	$(BIN)/python -m infra.devcluster up --nodes $(or $(NODES),2)

cluster-down: $(INSTALLED)  ## take it away again; PURGE=1: the nodes' image stores too
	$(BIN)/python -m infra.devcluster down $(if $(PURGE),--purge)

cluster-status: $(INSTALLED)  ## every component of it, and what is wrong
	$(BIN)/python -m infra.devcluster status

clean:  ## remove .venv, .venv-readers, build and caches, never runs or storage
	rm -rf $(VENV) .venv-readers build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
