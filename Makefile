# Every target sets itself up in .venv on a fresh clone.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help install demo play examples notebooks docs test lint check oldest dist bench slow kills fuzz clean

help:
	@echo "make demo    which norm is best here, and which peek? A comparison in two minutes, with a page"
	@echo "make play    a page that learns what you draw, with three norms side by side"
	@echo "make examples  the numbered examples: swap a norm, adapt and predict, audit a predictor, ..."
	@echo "make notebooks  the examples as notebooks, run anew, beside the scripts that they are made from"
	@echo "make docs    the documentation site, in site/html; strict about links and references"
	@echo "make test    the whole test suite"
	@echo "make lint    ruff, mypy --strict, import-linter"
	@echo "make check   test and lint, as CI does"
	@echo "make oldest  the test suite with the oldest versions that pyproject.toml promises"
	@echo "make dist    sdist and wheel in dist/, checked as a package index checks them"
	@echo "make bench   speed and memory of every norm against nn.BatchNorm2d; episodes; training steps; the service"
	@echo "make slow    what takes too long for the test suite: make kills (a quarter of an hour) and make fuzz (an hour)"
	@echo "make kills   100 runs killed at random moments, resumed and compared; the figures go to results/kills.json"
	@echo "make fuzz    1,000,000 damaged files for all readers; the figures go to results/fuzz.json"

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

install: $(READY)

demo: $(READY)
	$(BIN)/tasknorm compare --seeds 3 --out demo

play: $(READY)
	$(BIN)/tasknorm play

examples: $(READY)
	@for example in examples/0*.py; do echo; echo "== $$example"; MPLBACKEND=template $(BIN)/python $$example || exit 1; done

notebooks: $(READY)
	PYTHONPATH=docs $(BIN)/python -m making.notebooks

# Pages are assembled from docs/, docstrings, help texts and results/; the report of a broken link names page and line.
docs: $(READY)
	PYTHONPATH=docs $(BIN)/python -m making
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/zensical build --strict --clean -f mkdocs.yml
	@echo "Look at it: $(BIN)/python -m http.server --directory site/html --bind 127.0.0.1 8080"

# glibc then fills fresh memory with NaNs, so that a read of what was never written shows
test: $(READY)
	MALLOC_PERTURB_=255 $(BIN)/python -m pytest -q -n auto

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: test lint

# An environment of its own, with the oldest versions; nothing but the pins differs from make test
oldest:
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --upgrade pip
	.venv-oldest/bin/python -m pip install --quiet -c constraints-oldest.txt -e '.[dev]'
	MALLOC_PERTURB_=255 .venv-oldest/bin/python -m pytest -q -n auto

dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*

bench: $(READY)
	$(BIN)/python benchmarks/layers.py
	$(BIN)/python benchmarks/sampling.py
	$(BIN)/python benchmarks/episode.py
	$(BIN)/python benchmarks/serve.py

slow: kills fuzz

kills: $(READY)
	$(BIN)/python benchmarks/kills.py --kills 100 --json > results/kills.json

fuzz: $(READY)
	cd tests && ../$(BIN)/python -m fuzz --inputs 1000000 --json ../results/fuzz.json

clean:
	rm -rf $(VENV) .venv-oldest demo dist site .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
