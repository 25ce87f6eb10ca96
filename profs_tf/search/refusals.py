"""What a build of an index refuses to replace, to lose or to leave out without being asked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional

from profs_tf.inputs.decoding import UnreadableImageError
from profs_tf.search.source import IndexSource
from profs_tf.search.storage import IndexFolder
from profs_tf.search.table import ImageTable


def refuse_others(source: IndexSource, path: Path, table: Optional[ImageTable]) -> None:
    """Raises ValueError if the finished index has none of the pictures, or pictures of another kind.

    Args:
        source: The pictures to index.
        path: Folder of the index.
        table: Of the finished index; None if there is none.
    """
    if table is None:
        return
    same_kind = (table.classes is None) == (source.classes is None)
    if not same_kind or set(source.names).isdisjoint(table.names):
        kind = "without" if table.classes is None else "with"
        raise ValueError(
            f"`index` must be empty or of the same pictures, got {path} of {len(table.names):,} "
            f"others {kind} classes, the first {table.names[0]}. Choose another folder, or pass "
            "`overwrite=True` to replace the index."
        )


def refuse_lost(source: IndexSource, folder: IndexFolder) -> None:
    """Raises ValueError if pictures that were added to the index are not among those it is built of."""
    if not folder.is_changed():
        return
    table, names = folder.open().table, set(source.names)
    rows = table.live_rows()
    lost = [
        table.names[row]
        for row in rows[rows >= table.built]
        if table.names[row] not in names
        and (source.is_in_memory or os.path.exists(os.path.join(source.root, table.names[row])))
    ]
    if lost:
        raise ValueError(
            f"`images` must include what was added to the index, got none of {len(lost)}, first {lost[0]}. "
            "Add further pictures instead of building again, or pass `overwrite=True` to leave these out."
        )


def refuse_unreadable(unreadable: dict[str, list[list[Any]]]) -> None:
    """Raises the error of a picture that an earlier build skipped and this one must not."""
    for errors in unreadable.values():
        for _, reason in errors:
            raise UnreadableImageError(reason)
