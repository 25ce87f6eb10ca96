"""The pictures to embed: those of a folder, a CSV file or a list, with the label of each that has one."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Union

from profs_tf.datasets.csv import list_csv
from profs_tf.search.source import IndexSource, source_of
from profs_tf.utils.files import expanded


def pictures_in(path: Union[str, os.PathLike]) -> IndexSource:
    """Lists the pictures of a folder, or of a CSV file with the columns `path` and `label`.

    In a folder the label of a picture is the sub-folder of `path` that it lies in, at any depth.

    Raises:
        NotADirectoryError: If the path is neither.
        ValueError: If there is no picture, or the CSV file has mistakes.
    """
    if Path(path).suffix.lower() == ".csv":
        if not expanded(path).is_file():
            raise FileNotFoundError(f"`images` must be a file that exists if it is a .csv, got {path}.")
        return source_of(list_csv(path))
    if not expanded(path).is_dir():
        raise NotADirectoryError(
            f"`images` must be a folder, a .csv file, a text file of paths, or -, got {path}. Check the path."
        )
    source = source_of(path)
    labels = tuple(name.split("/")[0] if "/" in name else "" for name in source.names)
    return dataclasses.replace(source, classes=labels if any(labels) else None)


def listed_pictures(paths: Sequence[str]) -> IndexSource:
    """Makes a source of picture files, absolute or relative to the working directory; names are the paths.

    Raises:
        ValueError: If there are none.
    """
    if not paths:
        raise ValueError("`images` must list at least one picture, one path a line, got none.")
    root = "" if all(map(os.path.isabs, paths)) else os.getcwd()
    return IndexSource(root, tuple(paths), tuple(os.path.abspath(path) for path in paths))
