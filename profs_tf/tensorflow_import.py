"""Imports TensorFlow without its start-up notices.

TensorFlow 2.15 writes a dozen lines about oneDNN, CUDA and TensorRT to the process's standard error while
it is imported, three of them at level ERROR though nothing is wrong. They come from C++ before any Python
setting applies, so the file descriptor itself is held back during the import, and handed on if that fails.
"""

import importlib
import os
import sys
import tempfile


def import_tensorflow_quietly() -> None:
    """Imports TensorFlow with its notices held back; does nothing where it is already imported.

    ``TF_CPP_MIN_LOG_LEVEL`` is set to 2 (errors only) unless the user has set it; a user who has set it to 0
    sees everything.
    """
    if "tensorflow" in sys.modules:
        return
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2") == "0":
        importlib.import_module("tensorflow")
        return
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            importlib.import_module("tensorflow")
        except BaseException:
            held.seek(0)
            os.write(saved, held.read())
            raise
        finally:
            os.dup2(saved, 2)
            os.close(saved)
