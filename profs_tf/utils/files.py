"""Writing files so that an interruption leaves the old file or the new one, whole."""

import os
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Replaces a text file in one step: no reader and no killed process ever sees half of it."""
    temporary = path.with_name(path.name + ".part")
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
