"""Your own images listed in a CSV file: one row per image."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import re
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np

from profs_tf.datasets.class_split import TrainClasses, check_split, split_by_class
from profs_tf.datasets.folder import files_exist
from profs_tf.datasets.image_list import ImageList
from profs_tf.utils.files import expanded

_REQUIRED = ("path", "label")
_BOX = ("x", "y", "w", "h")
_SPLITS = ("train", "test")
_WITH_GALLERY = ("train", "query", "gallery")
# Column name -> text, and "line" -> the line's number.
_Row = dict[str, Any]


def from_csv(
    path: Union[str, os.PathLike], train_classes: Optional[TrainClasses] = None
) -> tuple[ImageList, ImageList]:
    """Returns (train, test) of the images that a CSV file lists.

    The first line names the columns, in any order; other columns are ignored:

    - ``path``: The image file, absolute or relative to the CSV file's folder.
    - ``label``: The class, any text. If all labels are integers, classes are sorted by value, else as text.
    - ``split`` (optional): ``train`` or ``test``. A class may have images in both: see ``shared_classes``.
      Or ``train``, ``query`` and ``gallery``: the test list then holds both of the latter, with `is_query`.
    - ``x``, ``y``, ``w``, ``h`` (optional): The bounding box in pixels, kept in ``ImageList.boxes``.

    Images stay in the order of the rows.

    Args:
        path: The CSV file: UTF-8, separated by commas.
        train_classes: Which classes train, see ``split_by_class``. None means 0.5 without a ``split`` column;
            with one it must be None.

    Raises:
        FileNotFoundError: If the CSV file is missing.
        ValueError: If columns or values are missing or wrong, an image is missing or listed twice, or a split
            has fewer than two classes.
    """
    rows = _read_rows(expanded(path))
    if "split" not in rows[0]:
        return split_by_class(_to_list(rows, path), 0.5 if train_classes is None else train_classes)
    if train_classes is not None:
        raise ValueError("`train_classes` must be left out for a file with a split column, got both.")
    with_gallery = any(row["split"] in _WITH_GALLERY[1:] for row in rows)
    splits = _WITH_GALLERY if with_gallery else _SPLITS
    wrong = next((row for row in rows if row["split"] not in splits), None)
    missing = set(splits) - {row["split"] for row in rows}
    if wrong or missing:
        got = f"{wrong['split']!r} in line {wrong['line']}" if wrong else f"no {sorted(missing)[0]}"
        raise ValueError(
            f"Column split of {path} must be {' or '.join(splits)}, each in some row, got {got}."
        )
    train = _to_list([row for row in rows if row["split"] == "train"], path, " train")
    tested = [row for row in rows if row["split"] != "train"]
    test = _to_list(tested, path, " test")
    if with_gallery:
        is_query = np.array([row["split"] == "query" for row in tested])
        test = dataclasses.replace(test, is_query=is_query)
    check_split(train, test)
    return train, test


def list_csv(path: Union[str, os.PathLike]) -> ImageList:
    """Returns all images that a CSV file lists as one list; the ``split`` column is ignored.

    Raises:
        FileNotFoundError: If the CSV file is missing.
        ValueError: If columns or values are missing or wrong, or an image is missing or listed twice.
    """
    return _to_list(_read_rows(expanded(path)), path)


def _read_rows(path: Path) -> list[_Row]:
    """Returns the used columns of each row, with "line" added and "path" resolved."""
    try:
        text = path.read_text("utf-8-sig")
    except (FileNotFoundError, IsADirectoryError) as error:
        raise FileNotFoundError(
            f"`path` must be a CSV file with one line per image, got {path}: {error.strerror}. "
            "Check csv:PATH."
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"`{path}` must be UTF-8, got {error}. Save it again as UTF-8.") from error
    try:
        rows = _parse(path, text)
    except csv.Error as error:
        raise ValueError(f"`{path}` must be a CSV file, got {error}.") from error
    _check_images(path, rows)
    return rows


def _parse(path: Path, text: str) -> list[_Row]:
    reader = csv.DictReader(io.StringIO(text))
    used = _used_columns(path, tuple(reader.fieldnames or ()))
    rows = []
    for row in reader:
        if None in row:
            raise ValueError(
                f"`{path}` must have as many values in each line as columns, got {row[None]} too many in "
                f"line {reader.line_num}. Put values that contain commas in double quotes."
            )
        empty = [name for name in used if not (row[name] or "").strip()]
        if empty:
            raise ValueError(
                f"Column {empty[0]} of {path} must have a value, got none in line {reader.line_num}."
            )
        image = os.path.join(path.parent, row["path"])
        rows.append({**{name: row[name] for name in used}, "path": image, "line": reader.line_num})
    return rows


def _used_columns(path: Path, columns: tuple[str, ...]) -> list[str]:
    boxes = [name for name in _BOX if name in columns]
    if not set(_REQUIRED) <= set(columns) or len(boxes) not in (0, 4):
        raise ValueError(
            f"`{path}` must have the columns {', '.join(_REQUIRED)}, and all or none of {', '.join(_BOX)}, "
            f"separated by commas, got {list(columns)}."
        )
    used = [*_REQUIRED, *(name for name in ("split", *_BOX) if name in columns)]
    repeated = [name for name in used if columns.count(name) > 1]
    if repeated:
        raise ValueError(f"`{path}` must have each column once, got {repeated[0]} more than once.")
    return used


def _check_images(path: Path, rows: list[_Row]) -> None:
    if not rows:
        raise ValueError(f"`{path}` must list at least one image, got none.")
    missing = np.flatnonzero(~files_exist([row["path"] for row in rows]))
    if len(missing):
        first = rows[missing[0]]
        raise ValueError(
            f"Column path of {path} must name files that exist, got {len(missing):,} missing of "
            f"{len(rows):,}, the first in line {first['line']}: {first['path']}."
        )
    lines: dict[tuple[Any, ...], int] = {}
    for row in rows:
        key = (os.path.normpath(row["path"]), *(row.get(name) for name in _BOX))
        if key in lines:
            raise ValueError(
                f"Column path of {path} must name an image once, or with different boxes, got {row['path']} "
                f"in lines {lines[key]} and {row['line']}."
            )
        lines[key] = row["line"]


def _to_list(rows: list[_Row], path: Union[str, os.PathLike], part: str = "") -> ImageList:
    labels = [row["label"] for row in rows]
    # 007 and 7 are two labels: converting both to integers would merge their classes.
    if all(re.fullmatch(r"0|-?[1-9][0-9]*", label) for label in labels):
        labels = [int(label) for label in labels]
    boxes = np.array([_box(row, path) for row in rows], np.float32) if _BOX[0] in rows[0] else None
    return ImageList.from_labels([row["path"] for row in rows], labels, f"{Path(path).stem}{part}", boxes)


def _box(row: _Row, path: Union[str, os.PathLike]) -> list[float]:
    try:
        return [float(row[name]) for name in _BOX]
    except ValueError as error:
        raise ValueError(
            f"Columns {', '.join(_BOX)} of {path} must be numbers, got {error} in line {row['line']}."
        ) from error
