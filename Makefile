# Every target does its own set-up: python3 (3.11 or newer), make and git are all that must be there.
#   make demo            the example project with a worker and the dashboard; options go in ARGS="--once"
#   make test            the everyday tests; with CI=true all of them, on every supported Django found
#   make check           lint, types, import directions, missing migrations
#   make screenshots     the pictures of the documentation, by a real browser
#   make bench           the speed; never part of a test run
PYTHON ?= python3
ARGS ?=
RUN = .venv/bin/python

# The everyday run leaves out what takes long (tests/conftest.py says what that is) and what needs a browser.
ifeq ($(CI),true)
SELECT =
MATRIX = test-matrix
else
SELECT = -m "not slow and not browser"
MATRIX =
endif

.PHONY: demo test check screenshots bench setup test-main test-matrix format

setup:
	@.ci/venv .venv "$(PYTHON)" -e ".[dev]"

demo: setup
	@$(RUN) manage.py demo $(ARGS)

test: setup test-main $(MATRIX)

test-main: setup
	@$(RUN) -m pytest -q -n 2 --dist loadfile $(SELECT) $(ARGS)

test-matrix: setup
	@.ci/matrix

check: setup
	@.ci/check

format: setup
	@$(RUN) -m ruff check --fix . && $(RUN) -m ruff format .

screenshots: setup
	@$(RUN) -m docs.screenshots

bench: setup
	@$(RUN) -m bench $(ARGS)
