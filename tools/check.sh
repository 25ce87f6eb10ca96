#!/usr/bin/env bash
# Format, lint, types and tests, as continuous integration runs them. Arguments go to pytest: tools/check.sh -m slow
set -eu
cd "$(dirname "$0")/.."
ruff format --check .
ruff check .
# The types of NumPy 2 are not those of NumPy 1, for which the package is annotated; it runs on both.
if python -c 'import numpy, sys; sys.exit(not numpy.__version__.startswith("1."))'; then mypy; fi
# Warnings are errors; pyproject.toml lists the exceptions. The tests of a file share expensive fixtures (loadfile), and
# files keep their order, because those that take longest come early. Tests often wait for other processes, hence one
# worker more than there are cores.
python -m pytest -n "$(($(nproc) + 1))" --dist loadfile --no-loadscope-reorder "$@"
