"""A copy of the package to which a test adds files, and its commands as a user starts them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import profs_tf

DOCS = Path(__file__).parents[2] / "docs"


def copy_package(folder):
    """Copies the package into ``folder``; returns the copy's folder."""
    source = Path(profs_tf.__file__).parent
    return Path(shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__")))


def code_blocks(guide, language):
    """Returns the blocks of one language in a guide of docs/."""
    text = (DOCS / f"{guide}.md").read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def run_copied_command(package, name, *arguments):
    """Runs ``python -m profs_tf.NAME`` of the copy; returns the completed process."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", f"profs_tf.{name}", *arguments],
        cwd=package.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
