"""Detects a process that was forked after TensorFlow had started its threads, which a fork does not copy."""

import os

from tensorflow.python.eager import context

_lacks_threads = False


class ForkedProcessError(RuntimeError):
    """TensorFlow cannot work in this process: every operation would wait forever."""


def check_not_forked() -> None:
    """Raises ForkedProcessError in a process that was forked after its parent had used TensorFlow.

    Only forks since this module was imported are noticed.
    """
    if _lacks_threads:
        raise ForkedProcessError(
            "This process was forked after its parent had used TensorFlow, whose threads are missing here. "
            "Start it with multiprocessing.get_context('spawn'), or run the command."
        )


def _note_fork() -> None:
    global _lacks_threads
    # Importing TensorFlow starts no thread; the first operation initializes the context.
    _lacks_threads = _lacks_threads or getattr(context.context(), "_context_handle", None) is not None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
