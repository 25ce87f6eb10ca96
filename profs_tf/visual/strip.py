"""The neighbor strip: a row for each query with its nearest images and their distances."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import BinaryIO, Union

from PIL import Image, ImageDraw

from profs_tf.inputs.decoding import ImageOrPath
from profs_tf.visual.thumbnails import label_font, square_thumbnail

_SIZE = 112
_GAP = 6
_LINE = 13
_LABEL_LENGTH = 16


def draw_strip(
    rows: Sequence[Sequence[tuple[ImageOrPath, str]]], path: Union[str, os.PathLike, BinaryIO]
) -> None:
    """Draws rows of pictures into a PNG; an unreadable file appears as a crossed square.

    Args:
        rows: For each query a list of (picture, label), the query first; a picture is the path of a file or
            uint8 `[H, W, 3]`. A label may have several lines; of a long one only the end is shown.
        path: The PNG file, or a binary file to write to.

    Raises:
        OSError: If the file cannot be written.
    """
    columns = max(len(row) for row in rows)
    lines = max(label.count("\n") + 1 for row in rows for _, label in row)
    row_height = _SIZE + lines * _LINE + 2 * _GAP
    # A gap and a line separate the query from its neighbors.
    width = _GAP + columns * (_SIZE + _GAP) + 2 * _GAP
    sheet = Image.new("RGB", (width, _GAP + len(rows) * row_height), "white")
    draw, font = ImageDraw.Draw(sheet), label_font(11)
    for number, row in enumerate(rows):
        top = _GAP + number * row_height
        for column, (picture, label) in enumerate(row):
            left = _GAP + column * (_SIZE + _GAP) + (2 * _GAP if column else 0)
            sheet.paste(square_thumbnail(picture, _SIZE), (left, top))
            shortened = "\n".join(_shortened(line) for line in label.split("\n"))
            draw.text((left, top + _SIZE + 1), shortened, fill="black", font=font, spacing=2)
        draw.line([_SIZE + 3 * _GAP, top, _SIZE + 3 * _GAP, top + _SIZE], fill="#888888", width=2)
    sheet.save(os.path.expanduser(path) if isinstance(path, (str, os.PathLike)) else path, "PNG")


def _shortened(label: str) -> str:
    return label if len(label) <= _LABEL_LENGTH else "\N{HORIZONTAL ELLIPSIS}" + label[1 - _LABEL_LENGTH :]
