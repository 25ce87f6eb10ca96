"""The contact sheet of a data set: random classes, with a row of thumbnails for each."""

import os
from collections.abc import Sequence
from typing import Union

import numpy as np
from PIL import Image, ImageDraw

from profs_tf.datasets.image_list import ImageList
from profs_tf.visual.thumbnails import label_font, picture_of, square_thumbnail

_COLUMNS = 8
_SIZE = 96
_GAP = 6
_TITLE_HEIGHT = 22


def draw_contact_sheet(
    image_lists: Sequence[ImageList],
    path: Union[str, os.PathLike],
    *,
    num_classes: int = 12,
    seed: int = 0,
) -> None:
    """Draws random images of random classes into a PNG; an unreadable file appears as a crossed square.

    Args:
        image_lists: The splits of a data set; classes are drawn uniformly from all of them.
        path: The PNG file.
        num_classes: Rows at most.
        seed: Of classes and images.

    Raises:
        OSError: If the file cannot be written.
    """
    rows = _draw_classes(image_lists, num_classes, seed)
    row_height = _TITLE_HEIGHT + _SIZE + _GAP
    sheet = Image.new("RGB", (_GAP + _COLUMNS * (_SIZE + _GAP), _GAP + len(rows) * row_height), "white")
    draw = ImageDraw.Draw(sheet)
    font = label_font(13)
    random = np.random.default_rng(seed)
    for row, (image_list, label) in enumerate(rows):
        top = _GAP + row * row_height
        images = np.flatnonzero(image_list.labels == label)
        title = f"{image_list.class_names[label]}  ({image_list.name}, {len(images)} images)"
        draw.text((_GAP, top), title, fill="black", font=font)
        chosen = random.permutation(images)[:_COLUMNS]
        for column, index in enumerate(chosen):
            corner = (_GAP + column * (_SIZE + _GAP), top + _TITLE_HEIGHT)
            sheet.paste(square_thumbnail(picture_of(image_list, index), _SIZE), corner)
    sheet.save(path, "PNG")


def _draw_classes(
    image_lists: Sequence[ImageList], num_classes: int, seed: int
) -> list[tuple[ImageList, int]]:
    every = [
        (image_list, label)
        for image_list in image_lists
        for label in np.flatnonzero(image_list.class_sizes).tolist()
    ]
    chosen = np.random.default_rng([seed, 1]).permutation(len(every))[:num_classes]
    return [every[index] for index in sorted(chosen)]
