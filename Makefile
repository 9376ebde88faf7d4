# Both commands set up what they need: a .venv with the project and its dependencies (torch is large: some minutes).
PYTHON ?= python3
BIN := .venv/bin

# Beside the usual torch: an older one, whose process groups take no hooks. In a .venv of its own of 5 GB.
OLDER := .venv-older
OLDER_TORCH := torch==2.11.0 torchvision==0.26.0
ON_OLDER := tests/ranks tests/numerics tests/unit/doctor tests/real/harmless $(addprefix tests/real/test_,modes.py runs.py watch.py watch_hidden.py watch_marks.py watch_on_a_gpu.py one_watcher.py)
ON_OLDER_QUIET := tests/quiet/test_culprits.py tests/quiet/test_launched_once.py

.PHONY: demo test collected test-all mutants test-older on-older test-gpu carried lint bench soak clean

demo: .venv/installed
	$(BIN)/ddptui run quickstart

# Bytecode is kept, whatever the environment says: else each console, and each worker of pytest, compiles for seconds.
test collected test-all mutants test-older on-older test-gpu bench soak: export PYTHONDONTWRITEBYTECODE =

# What measures, or looks at the whole machine, runs alone. Of all else four files run at a time, on two cores, too: their
# tests wait for processes and for the clock. A worker that crashes ends the run, with its test's name: xdist, which hands
# the files it had finished to the others again, would wait for ever.
FOUR := -n 4 --dist loadfile --no-loadscope-reorder --max-worker-restart 0
QUIET := tests/quiet tests/gpu
BESIDE := $(BIN)/python -m pytest $(FOUR) $(addprefix --ignore=,$(QUIET))

test: .venv/installed
	$(MAKE) --no-print-directory -j 2 lint collected
	$(BESIDE) -m "not rare"
	$(BIN)/python -m pytest -m "not rare" $(QUIET)

# Writes the tests' bytecode, on the core that lint leaves idle: the four would each do so, at the same time.
collected: .venv/installed
	@$(BIN)/python -m pytest --collect-only -q $(addprefix --ignore=,$(QUIET)) >/dev/null || true # the four say what is wrong

# With those that take long and seldom break: before an issue is called done.
test-all: test
	$(BESIDE) -m rare
	$(BIN)/python -m pytest -m rare $(QUIET)
	$(MAKE) mutants
	$(MAKE) test-older

# Puts faults into a copy, one at a time: some test must notice each. An estimated ten minutes on two cores.
mutants: .venv/installed
	$(BIN)/python -m tests.mutants

# What depends on torch's age, with an older torch. Where that cannot be had, it says so, and is content.
test-older:
	@$(MAKE) --no-print-directory $(OLDER)/installed || echo 'test-older: not run: $(OLDER_TORCH) cannot be installed'
	@test ! -e $(OLDER)/installed || $(MAKE) --no-print-directory on-older

on-older:
	$(OLDER)/bin/python -m pytest $(FOUR) -m "not rare" $(ON_OLDER)
	$(OLDER)/bin/python -m pytest -n 4 --dist load -m rare tests/real/harmless
	$(OLDER)/bin/python -m pytest -m "not rare" $(ON_OLDER_QUIET)

# What GPUs must show. Skipped without one; an estimated quarter of an hour with one. With BIN= the Python in that folder,
# which has torch, runs them; the other packages were carried along, and no registry is asked.
CARRIED = carried-$(FOR)
ifeq ($(firstword $(origin BIN)),command)
FOR := $(or $(shell $(BIN)/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])'),$(error BIN=$(BIN): no python3 there))
test-gpu: export PYTHONPATH := $(abspath $(CARRIED)):$(PYTHONPATH)
test-gpu: $(CARRIED)
else
FOR ?= 3.12
test-gpu: .venv/installed
endif
	$(BIN)/python3 -m pytest tests/gpu

$(CARRIED):
	@echo "test-gpu: no $@ here: run 'make carried FOR=$(FOR)' in a checkout that reaches a registry, and copy the folder into this one" >&2; exit 1

# These packages, from wheels for the Python of another machine: `make carried FOR=3.12`.
ARCH := x86_64
carried: .venv/installed
	rm -rf $(CARRIED)
	$(BIN)/python -c 'import tomllib; given = tomllib.load(open("pyproject.toml", "rb")); print(*(name for name in given["project"]["dependencies"] + given["dependency-groups"]["test"] if not name.startswith("torch")), sep="\n")' | \
	$(BIN)/python -m pip install --quiet --no-compile --target $(CARRIED) --only-binary=:all: --python-version $(FOR) --platform manylinux_2_28_$(ARCH) --platform manylinux2014_$(ARCH) --requirement /dev/stdin

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/installed
	$(BIN)/python benchmarks/console_start.py
	$(BIN)/python -m benchmarks.launch_cost
	$(BIN)/python -m benchmarks.many_ranks
	$(BIN)/python -m benchmarks.warm_training
	$(BIN)/python benchmarks/hub_load.py
	$(BIN)/python benchmarks/strategies.py
	$(BIN)/python benchmarks/ring.py
	$(BIN)/python benchmarks/sched_batch.py
	$(BIN)/python benchmarks/looking.py
	$(BIN)/python -m benchmarks.watching cost
	$(BIN)/python -m benchmarks.recordings build/recordings
	$(BIN)/python -m benchmarks.attribution build/recordings
	$(BIN)/python benchmarks/what_if.py
	$(BIN)/python -m benchmarks.clean_trials 100
	$(BIN)/python -m benchmarks.clean_trials 100 1
	$(BIN)/python benchmarks/spinning.py
	$(BIN)/python benchmarks/live_verdict.py
	$(BIN)/python -m benchmarks.primitives
	$(BIN)/python -m benchmarks.primitives cadences
	$(BIN)/python benchmarks/projection.py
	$(BIN)/python -m benchmarks.console_picture
	$(BIN)/python -m benchmarks.console_flood
	$(BIN)/python -m benchmarks.console_disturbs
	$(BIN)/python -m benchmarks.console_memory

soak: .venv/installed
	$(BIN)/python -m benchmarks.soak
	$(BIN)/python -m benchmarks.kills

clean:
	rm -rf .venv $(OLDER) carried-* build dist

$(OLDER)/installed: pyproject.toml Makefile
	rm -f $@
	$(PYTHON) -m venv $(OLDER)
	$(OLDER)/bin/python -m pip install --quiet --upgrade pip
	$(OLDER)/bin/python -m pip install --quiet --no-cache-dir --editable . --group dev $(OLDER_TORCH)
	touch $@

.venv/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ddptui needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group dev
	$(BIN)/python -m pip install --quiet --no-deps 'kubeflow-training>=1.9,<2'
	touch $@
