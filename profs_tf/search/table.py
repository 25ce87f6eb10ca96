"""The table of an index: one row for each image that was ever embedded into it, and which ones are removed.

N rows, n of them live.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Optional

import numpy as np

# One value for each image; classes are optional.
_COLUMN_TYPES = {"names": str, "sizes": int, "mtimes_ns": int, "classes": str}


@dataclasses.dataclass
class ImageTable:
    """The columns of all rows, removed ones included, in the order of the embeddings.

    Attributes:
        names: N paths relative to the root, absolute ones outside of it, or names of pictures in memory.
        sizes: N file sizes in bytes; 0 where it is unknown, as `mtimes_ns`.
        mtimes_ns: N modification times.
        classes: N class names, or None.
        chunks: [key, first row, row after the last, unreadable] of each embedded chunk.
        unreadable: [name, reason] of the pictures left out.
        built: How many rows were there when the index was built; the others were added later.
        removed: The rows that were removed.
    """

    names: list[str]
    sizes: list[int]
    mtimes_ns: list[int]
    classes: Optional[list[str]]
    chunks: list[list[Any]]
    unreadable: list[list[str]]
    built: int
    removed: set[int]

    @classmethod
    def read(cls, columns: dict[str, Any], changes: Iterable[dict[str, Any]]) -> ImageTable:
        """Makes the table of a build and of what was added and removed since.

        Raises:
            ValueError: If the columns are not those of an index.
        """
        _check(columns)
        fields = {field.name for field in dataclasses.fields(cls)} & set(columns)
        table = cls(**{name: columns[name] for name in fields}, built=len(columns["names"]), removed=set())
        for change in changes:
            table._apply(change)
        return table

    def live_rows(self) -> np.ndarray:
        """Returns the rows that are not removed, int64 `[n]`, ascending."""
        return np.setdiff1d(np.arange(len(self.names)), list(self.removed), assume_unique=True)

    def _apply(self, change: dict[str, Any]) -> None:
        if "removed" in change:
            rows = change["removed"]
            if not isinstance(rows, list) or not all(
                type(row) is int and 0 <= row < len(self.names) for row in rows
            ):
                raise ValueError("its removed rows are not those of the index")
            self.removed.update(rows)
            return
        added = change.get("added")
        if not isinstance(added, dict):
            raise ValueError("its changes are not those of an index")
        _check(added)
        if (added["classes"] is None) != (self.classes is None):
            raise ValueError("its classes are not those of the index")
        # What is added anew is readable now, or has a new reason.
        known = {*added["names"], *(name for name, _ in added["unreadable"])}
        self.unreadable = [pair for pair in self.unreadable if pair[0] not in known]
        for name in ("names", "sizes", "mtimes_ns", "classes", "chunks", "unreadable"):
            if added[name] is not None:
                getattr(self, name).extend(added[name])


def _check(columns: dict[str, Any]) -> None:
    """Raises ValueError unless the columns are those of an index."""
    types = dict(_COLUMN_TYPES)
    if columns.get("classes", "missing") is None:
        del types["classes"]
    error = ValueError("its columns are not those of an index")
    if not all(isinstance(columns.get(name), list) for name in (*types, "chunks", "unreadable")):
        raise error
    length = len(columns["names"])
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in columns["unreadable"]):
        raise error
    for name, kind in types.items():
        if len(columns[name]) != length or not all(isinstance(value, kind) for value in columns[name]):
            raise error
