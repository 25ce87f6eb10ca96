"""How much memory this process may take: what Linux has available, within the limits of control groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

# Names of the files in a group's folder: limit and usage, in bytes. Usage includes files that
# Linux keeps in memory.
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")
_VERSION_2 = ("memory.max", "memory.current")


def free_memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Returns the bytes of memory available without swapping, within the limits of the control groups.

    A group's limit holds for all groups below it together. Hence the process may take what is left of its own
    group's and of each group's above it.

    Args:
        proc: Where Linux describes memory and processes.
        groups: Where the control groups are mounted, of version 1 or 2.
    """
    fields = dict(line.split(":") for line in (proc / "meminfo").read_text().splitlines())
    free = int(fields["MemAvailable"].split()[0]) * 1024
    return max(0, min([free, *_left_in_groups(proc, groups)]))


def _left_in_groups(proc: Path, groups: Path) -> Iterator[int]:
    """Yields limit minus usage of the process's groups that have a limit."""
    own = proc / "self" / "cgroup"
    for line in own.read_text().splitlines() if own.exists() else ():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            root, files = groups, _VERSION_2
        elif "memory" in controllers.split(","):
            root, files = groups / "memory", _VERSION_1
        else:
            continue
        group = root / path.lstrip("/")
        # In a container the path may be the host's, and the root the container's own group.
        for folder in (group, *group.parents):
            limit, usage = (folder / name for name in files)
            if limit.exists() and limit.read_text().strip() != "max":
                yield int(limit.read_text()) - int(usage.read_text()) + _reclaimable(folder, files)
            if folder == root:
                break


def _reclaimable(group: Path, files: tuple[str, str]) -> int:
    """Returns the bytes of files that were read and that Linux gives up when memory is short."""
    name = "inactive_file" if files == _VERSION_2 else "total_inactive_file"
    path = group / "memory.stat"
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(line.split()[1]) for line in lines if line.split()[0] == name), 0)
