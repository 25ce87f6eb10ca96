#!/usr/bin/env bash
# Format, lint, types and tests, as continuous integration runs them. Arguments go to pytest: tools/check.sh -m slow
set -eu
cd "$(dirname "$0")/.."
ruff format --check .
ruff check .
# The types of NumPy 2 are not those of NumPy 1, for which the package is annotated; it runs on both.
if python -c 'import numpy, sys; sys.exit(not numpy.__version__.startswith("1."))'; then mypy; fi
# Warnings are errors; pyproject.toml lists the exceptions. tests/conftest.py tells pytest's workers who runs what, in
# which order. Tests often wait for other processes, hence one worker more than there are cores. All of them, and the
# processes that tests start, import the same modules, which then need not be compiled each time.
unset PYTHONDONTWRITEBYTECODE
python -m pytest -n "$(($(nproc) + 1))" "$@"
