"""Provenance of a run: processor, versions, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import tensorflow as tf


def describe_machine() -> dict:
    """Returns the available cores, the processor's model, and the versions of Python and TensorFlow."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cores": cores,
        "cpu": _cpu_model(Path("/proc/cpuinfo")),
        "gpus": len(tf.config.list_physical_devices("GPU")),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
    }


def _cpu_model(cpuinfo: Path) -> str:
    if cpuinfo.exists():
        for line in cpuinfo.read_text("utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def describe_commit(root: Path) -> str:
    """Returns the commit of the repository at `root`, with "+changes" if files differ from it."""
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return commit + ("+changes" if _git(root, "status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()
