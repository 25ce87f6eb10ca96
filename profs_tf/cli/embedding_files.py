"""Embeddings and their labels in files: those that evaluate writes, and those that it reads."""

from __future__ import annotations

import csv
import io
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np

from profs_tf.datasets.image_list import ImageList
from profs_tf.metrics.arguments import check_embeddings, check_labels
from profs_tf.metrics.scores import query_and_gallery
from profs_tf.utils.files import expanded, replacing, write_atomically

FILES = ("embeddings", "labels", "gallery_embeddings", "gallery_labels")
"""Arguments of `evaluate` that files can give."""
_COLUMNS = ("name", "label", "split")
_PARTS = ("gallery", "query")


def saved_paths(path: str) -> tuple[Path, Path]:
    """Returns where `save` writes: the .npy file of the embeddings and the .csv file beside it."""
    array = expanded(path)
    array = array if array.suffix == ".npy" else array.with_name(f"{array.name}.npy")
    return array, array.with_suffix(".csv")


def check_saved(path: str, others: Sequence[str]) -> None:
    """Checks that `save` replaces nothing but what it wrote.

    Args:
        path: As for `save`.
        others: Other files that the command writes.

    Raises:
        ValueError: If its .csv file is one of them, or holds something else.
    """
    table = saved_paths(path)[1]
    taken = any(os.path.realpath(expanded(other)) == os.path.realpath(table) for other in others)
    if table.is_dir():
        taken = True
    elif table.exists() and not taken:
        first = table.read_bytes()[:64].splitlines()[:1]
        taken = first != [",".join(_COLUMNS).encode()]
    if taken:
        raise ValueError(
            f"`save_embeddings` must leave other files alone, got {path}, beside which names and labels "
            f"would replace {table}. Choose another name."
        )


def save(path: str, embeddings: np.ndarray, split: ImageList) -> None:
    """Writes embeddings, float `[N, D]`, as .npy, and beside it names and labels as .csv."""
    array, table = saved_paths(path)
    with replacing(array) as file:
        np.save(file, embeddings)
    names = range(len(split)) if split.is_in_memory else split.images
    parts = [""] * len(split) if split.is_query is None else [_PARTS[int(one)] for one in split.is_query]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(zip(names, np.asarray(split.class_names)[split.labels], parts))
    write_atomically(table, text.getvalue())


def read(files: Mapping[str, Optional[str]]) -> dict[str, Any]:
    """Returns the arguments of `evaluate` that files hold.

    A .csv file of labels that parts its rows into queries and gallery parts the embeddings, too.

    Args:
        files: Path, or None, of each of `FILES`: embeddings are .npy files, float `[N, D]`; labels are .npy
            files, text files with a label on each line, or .csv files with a column label.

    Raises:
        ValueError: If a file cannot be read, or they do not fit together.
    """
    gallery_labels = files["gallery_labels"]
    if gallery_labels is not None and files["gallery_embeddings"] is None:
        raise ValueError(
            f"`gallery_labels` must be left out without `gallery_embeddings`, got {gallery_labels}. "
            "Pass both."
        )
    found = {
        name: (_labels if name.endswith("labels") else _array)(name, path)
        for name, path in files.items()
        if path is not None
    }
    is_query = None if "gallery_embeddings" in found else _queries("labels", str(files["labels"]))
    if is_query is None:
        return found
    array = check_embeddings(found["embeddings"])
    return query_and_gallery(array, check_labels(found["labels"], len(array)), is_query)


def _array(flag: str, path: str) -> np.ndarray:
    try:
        array = np.load(expanded(path), allow_pickle=False)
    except OSError as error:
        raise _not_read(flag, path, error) from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"`{flag}` must be a .npy file of numbers, got {path}: {error}") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise ValueError(
            f"`{flag}` must be a .npy file of numbers, got {path}, an archive of several arrays."
        )
    return array


def _labels(flag: str, path: str) -> np.ndarray:
    if path.endswith(".npy"):
        return _array(flag, path)
    labels = _column(flag, path, "label") if _is_csv(path) else _text(flag, path).splitlines()
    if labels is None:
        raise ValueError(f"`{flag}` must have a column label if it is a .csv file, got {path}.")
    if "" in labels:
        raise ValueError(
            f"`{flag}` must have a label for each embedding, got none in row {labels.index('') + 1} of "
            f"{path}. Remove those rows, here and among the embeddings."
        )
    return np.asarray(labels)


def _is_csv(path: str) -> bool:
    return path.lower().endswith(".csv")


def _queries(flag: str, path: str) -> Optional[np.ndarray]:
    """Returns which rows of a .csv file are queries, bool `[N]`; None if it does not part them."""
    parts = _column(flag, path, "split") if _is_csv(path) else None
    if parts is None or not any(parts):
        return None
    if wrong := sorted({*parts} - {*_PARTS}):
        raise ValueError(
            f"`{flag}` must have query or gallery in its column split, got {wrong[0]!r} in {path}. Remove "
            "those rows, here and among the embeddings, or the column."
        )
    return np.asarray([part == "query" for part in parts])


def _column(flag: str, path: str, name: str) -> Optional[list[str]]:
    """Returns a column of a .csv file; None if it has none of that name."""
    try:
        rows = list(csv.DictReader(io.StringIO(_text(flag, path))))
    except csv.Error as error:
        raise ValueError(f"`{flag}` must be a .csv file, got {path}: {error}.") from error
    return [row[name] or "" for row in rows] if rows and name in rows[0] else None


def _text(flag: str, path: str) -> str:
    try:
        return expanded(path).read_text("utf-8-sig")
    except OSError as error:
        raise _not_read(flag, path, error) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"`{flag}` must be UTF-8 text or a .npy file, got {path}: {error}.") from error


def _not_read(flag: str, path: str, error: OSError) -> ValueError:
    reason = error.strerror or error
    return ValueError(f"`{flag}` must be a file that can be read, got {path}: {reason}. Check the path.")
