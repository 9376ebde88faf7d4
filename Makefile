# Both commands set up what they need: a .venv with the project and its dependencies (torch is large: some minutes).
PYTHON ?= python3
BIN := .venv/bin

# Tests that hardly start ranks: two of them at once.
LIGHT := tests/console tests/tui tests/workers tests/faults/test_bad_input.py tests/faults/test_hostile_frames.py \
	tests/faults/test_journal.py tests/faults/test_under_load.py

# Files that start ranks and do not mind others beside them: also two at once, each in one piece, since its tests share
# what was launched. Whatever is in neither list measures, or looks at the whole machine, and runs alone.
# Long ones first, or one of the two waits for the other at the end.
BESIDE := tests/test_wheel.py tests/numerics tests/faults/test_deaths.py tests/faults/test_faults.py tests/hosts tests/slurm \
	tests/faults/test_resume.py tests/faults/test_silence.py tests/faults/test_lost_folders.py \
	tests/lab/test_before_anything_starts.py tests/lab/test_instruments.py tests/lab/test_mistakes.py \
	tests/lab/test_primitives_runs.py tests/lab/test_runs.py

.PHONY: demo test lint bench soak clean

demo: .venv/installed
	$(BIN)/ddptui --preset quickstart

test: lint
	$(BIN)/python -m pytest -n 2 $(LIGHT)
	$(BIN)/python -m pytest -n 2 --dist loadfile $(BESIDE)
	$(BIN)/python -m pytest $(addprefix --ignore=,$(LIGHT) $(BESIDE))

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/installed
	$(BIN)/python benchmarks/console_start.py
	$(BIN)/python benchmarks/first_step.py
	$(BIN)/python benchmarks/hub_load.py
	$(BIN)/python benchmarks/strategies.py
	$(BIN)/python benchmarks/ring.py
	$(BIN)/python benchmarks/sched_batch.py
	$(BIN)/python benchmarks/looking.py
	$(BIN)/python benchmarks/trial_cost.py
	$(BIN)/python benchmarks/attribution.py
	$(BIN)/python benchmarks/what_if.py
	$(BIN)/python benchmarks/live_verdict.py
	$(BIN)/python -m benchmarks.primitives
	$(BIN)/python benchmarks/projection.py
	$(BIN)/python -m benchmarks.console_picture
	$(BIN)/python -m benchmarks.console_flood
	$(BIN)/python -m benchmarks.console_disturbs

soak: .venv/installed
	$(BIN)/python -m benchmarks.soak
	$(BIN)/python -m benchmarks.kills

clean:
	rm -rf .venv build dist

.venv/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ddptui needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group dev
	$(BIN)/python -m pip install --quiet --no-deps 'kubeflow-training>=1.9,<2' 'alibabacloud-pai-dlc20201203>=1.11,<2'
	touch $@
