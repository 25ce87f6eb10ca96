#!/usr/bin/env bash
# Format, lint, types and tests, as continuous integration runs them. Arguments go to pytest: tools/check.sh -m slow
set -eu
cd "$(dirname "$0")/.."
ruff format --check .
ruff check .
mypy
# Warnings are errors: pyproject.toml says which are let through. A file's tests share what is costly to make. The
# order of the files is kept: the commands, which take longest, come early. Tests often wait for other processes,
# so that one worker more than there are cores is not too many.
python -m pytest -n "$(($(nproc) + 1))" --dist loadfile --no-loadscope-reorder "$@"
