"""Keeps what TensorFlow's libraries log while they are loaded from standard error.

From version 2.20 on the libraries log before they read TF_CPP_MIN_LOG_LEVEL: whether oneDNN is on, whether
there is a GPU, and that nobody has set up their log. No variable keeps that back.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator

_STANDARD_ERROR = 2
_LEVELS = b"IWE"
_UNINITIALIZED = b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"


@contextlib.contextmanager
def startup_notices_held_back() -> Iterator[None]:
    """Drops log lines below TF_CPP_MIN_LOG_LEVEL from standard error, and writes the other lines at the end.

    Standard error is the file descriptor, which libraries write to: what other threads write there is late by
    as much as the context lasts, and what a library writes before it ends the process is lost.
    TF_CPP_MIN_LOG_LEVEL=0 shows everything at once.
    """
    dropped = _LEVELS[: _min_log_level()]
    if not dropped:
        yield
        return
    try:
        original = os.dup(_STANDARD_ERROR)
    except OSError:  # It is closed.
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), _STANDARD_ERROR)
        try:
            yield
        finally:
            os.dup2(original, _STANDARD_ERROR)
            os.close(original)
            held.seek(0)
            _write(b"".join(line for line in held if not _is_log_line(line, dropped)))


def _min_log_level() -> int:
    try:
        return int(os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0"))
    except ValueError:
        return 0


def _is_log_line(line: bytes, levels: bytes) -> bool:
    return line.rstrip() == _UNINITIALIZED or bool(re.match(rb"[%b]\d{4} \d\d:\d\d:\d+\." % levels, line))


def _write(text: bytes) -> None:
    while text:
        text = text[os.write(_STANDARD_ERROR, text) :]
