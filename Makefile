# A convenience on systems with make. Each target is the plain commands that the README shows as well.
PYTHON ?= python3
BIN = .venv/bin
INSTALLED = .venv/.installed

.PHONY: demo test lint bench clean

demo: $(INSTALLED)
	$(BIN)/linly demo --output-folder out

test: $(INSTALLED)
	$(BIN)/linly models pull
	$(BIN)/linly models pull portrait-grace-hopper
	$(BIN)/python -m pytest

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(INSTALLED)
	$(BIN)/linly models pull
	$(BIN)/python profiling/bench/bench_pipeline.py --json bench.json
	$(BIN)/python profiling/bench/bench_trace.py

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[embedded,dev]'
	touch $(INSTALLED)

clean:
	rm -rf .venv out build dist bench.json
