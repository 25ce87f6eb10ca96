"""The files of a shard: NumPy arrays beside a table, or Parquet.

Shapes: n images of a shard, D embedding dimension.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from profs_tf.utils.checks import check_one_of
from profs_tf.utils.files import replacing, write_atomically

COLUMNS = ("name", "label", "checksum")


class Rows(NamedTuple):
    """The content of a shard.

    Attributes:
        names: n names of pictures.
        labels: n names of classes, "" for none.
        checksums: n SHA-256 of the pictures' files, or pixels, hexadecimal.
        embeddings: `[n, D]` in the stored type.
    """

    names: Sequence[str]
    labels: Sequence[str]
    checksums: Sequence[str]
    embeddings: np.ndarray


def check_format(name: str) -> None:
    """Raises ValueError unless a format is known and its library is installed."""
    check_one_of("format", name, FORMATS)
    if name == "parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise ValueError(
                "`format` parquet needs pyarrow, which cannot be imported "
                f"({error}). Run `pip install 'profs_tf[parquet]'`, or pass `format=npy`."
            ) from error


def write_npy(folder: Path, stem: str, rows: Rows, about: dict[str, Any]) -> list[str]:
    """Writes STEM.csv (name, label, checksum) and STEM.npy; returns the names of the files."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(zip(rows.names, rows.labels, rows.checksums))
    write_atomically(folder / f"{stem}.csv", text.getvalue())
    with replacing(folder / f"{stem}.npy") as file:
        np.save(file, rows.embeddings)
    return [f"{stem}.csv", f"{stem}.npy"]


def write_parquet(folder: Path, stem: str, rows: Rows, about: dict[str, Any]) -> list[str]:
    """Writes STEM.parquet; returns its name.

    Columns: name, label (null for none), checksum, embedding (a list of D numbers). The file's metadata has
    `about` under the key `profs_tf`, as JSON.
    """
    import pyarrow
    import pyarrow.parquet

    values = pyarrow.array(np.ascontiguousarray(rows.embeddings).ravel())
    table = pyarrow.table(
        {
            "name": pyarrow.array(rows.names, pyarrow.string()),
            "label": pyarrow.array([label or None for label in rows.labels], pyarrow.string()),
            "checksum": pyarrow.array(rows.checksums, pyarrow.string()),
            "embedding": pyarrow.FixedSizeListArray.from_arrays(values, rows.embeddings.shape[1]),
        }
    ).replace_schema_metadata({"profs_tf": json.dumps(about)})
    with replacing(folder / f"{stem}.parquet") as file:
        pyarrow.parquet.write_table(table, file, use_dictionary=["label"])
    return [f"{stem}.parquet"]


FORMATS = {"npy": write_npy, "parquet": write_parquet}
