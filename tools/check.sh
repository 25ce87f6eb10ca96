#!/usr/bin/env bash
# Format, lint and tests, as continuous integration runs them. Arguments go to pytest: tools/check.sh -m slow
set -eu
cd "$(dirname "$0")/.."
ruff format --check .
ruff check .
# Warnings are errors: pyproject.toml says which are let through. A file's tests share what is costly to make.
python -m pytest -n auto --dist loadfile "$@"
