# Six commands: `make demo`, `make test`, `make nightly`, `make docs`, `make papers` and `make gpu`. Each
# needs only Python 3.11 or newer and a network, the last a GPU besides.
PYTHON ?= python3
BIN := .venv/bin
# uv installs in seconds, wherever it can be had; pip does it otherwise.
INSTALL = install() { if [ -x $(BIN)/uv ]; then $(BIN)/uv pip install --compile-bytecode --python $(BIN)/python "$$@" ; \
  else $(BIN)/python -m pip install "$$@" ; fi ; } ; install --quiet -c constraints.txt
DEMO_CACHE := build/demo/cache
DEMO := raw-pixels,tiny-rn,tiny-clip,tiny-bert,tiny-uniter

.PHONY: demo test nightly docs gpu check install papers

demo: .venv/runs
	$(BIN)/vlbench --model $(DEMO) --tasks demo --output build/demo --cache-dir $(DEMO_CACHE) --overwrite
	$(BIN)/vlbench leaderboard build --output build/demo
	VLBENCH_CACHE_DIR=$(DEMO_CACHE) $(BIN)/vlbench leaderboard page --output build/demo

test: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal
	@$(BIN)/python scripts/size $$(git describe --tags --abbrev=0 2>/dev/null | sed 's/^/--since=/')

# What takes longer than `make test` may, the notebooks of the site among it, and the same numbers as
# other processors round them.
nightly: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal --nightly -m nightly
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal tests/fuzz --fuzz 200
	scripts/numbers

# The site, build/site/index.html, with its notebooks run; a warning fails. `make test` builds it without them.
docs: install
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -D nb_execution_mode=auto docs build/site

# The published numbers of the papers, wherever a network is; `vlbench papers --dry-run` says what it takes.
papers: install
	$(BIN)/vlbench papers --download --output build/papers

# What only a GPU shows, as build/gpu.md, to paste where it is read.
gpu: install
	$(BIN)/python scripts/gpu_report.py

check: install
	scripts/check

install: .venv/installed

# What vlbench needs to run.
.venv/runs: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "vlbench needs Python 3.11 or newer; say which: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv || \
	  { echo "no uv; pip it is" && $(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' ; }
	$(INSTALL) -e .
	touch $@

# What its tests and its site need, too.
.venv/installed: .venv/runs
	$(INSTALL) --group dev --group docs -e '.[all]'
	touch $@
