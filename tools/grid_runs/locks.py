"""File locks that are released when the last process that holds them ends, even if it is killed."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path
from typing import IO


def lock(path: Path, patience: float = 10.0) -> IO:
    """Returns the open lock file; closing it, here and in the children that hold it, releases the lock.

    Args:
        path: The lock file, created if missing.
        patience: Seconds to wait for another holder, which may be a run that is saving its state.

    Raises:
        ValueError: If another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = open(path, "a")  # noqa: SIM115 (closed by the caller)
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                file.close()
                raise ValueError(
                    f"`grid` must be the only one at work, but another grid, or a training it began, holds "
                    f"{path}. Wait for its end, or choose another --results and --runs_dir."
                ) from error
            time.sleep(0.1)
