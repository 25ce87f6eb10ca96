"""A contact sheet: random classes of a data set, a row of thumbnails each."""

from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from profs_tf.datasets.image_list import ImageList
from profs_tf.image_files import UnreadableImageError, read_image
from profs_tf.images import crop_to_box

_SIDE = 96
_GAP = 6
_TEXT = 22


def draw_contact_sheet(
    image_lists: list, path, *, num_classes: int = 12, images_per_class: int = 8, seed: int = 0
) -> None:
    """Draws random images of random classes into a PNG; a file that cannot be read shows as a crossed box.

    Args:
        image_lists: the parts of a data set; classes are drawn from all of them alike.
        path: the PNG file.
        num_classes: rows, fewer if there are not as many classes.
        images_per_class: thumbnails in a row, fewer if the class has not as many.
        seed: of the draws.

    Raises:
        OSError: if the file cannot be written.
    """
    rows = _draw_classes(image_lists, num_classes, seed)
    row_height = _TEXT + _SIDE + _GAP
    sheet = Image.new(
        "RGB", (_GAP + images_per_class * (_SIDE + _GAP), _GAP + len(rows) * row_height), "white"
    )
    draw = ImageDraw.Draw(sheet)
    # Pillow's own font lacks most letters.
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"), 13)
    random = np.random.default_rng(seed)
    for row, (image_list, label) in enumerate(rows):
        top = _GAP + row * row_height
        images = np.flatnonzero(image_list.labels == label)
        title = f"{image_list.class_names[label]}  ({image_list.name}, {len(images)} images)"
        draw.text((_GAP, top), title, fill="black", font=font)
        chosen = random.permutation(images)[:images_per_class]
        for column, index in enumerate(chosen):
            corner = (_GAP + column * (_SIDE + _GAP), top + _TEXT)
            sheet.paste(_thumbnail(image_list, index), corner)
    sheet.save(path, "PNG")


def _draw_classes(image_lists: list, num_classes: int, seed: int) -> list:
    every = [
        (image_list, label)
        for image_list in image_lists
        for label in np.flatnonzero(image_list.class_sizes).tolist()
    ]
    chosen = np.random.default_rng([seed, 1]).permutation(len(every))[:num_classes]
    return [every[index] for index in sorted(chosen)]


def _thumbnail(image_list: ImageList, index: int) -> Image.Image:
    """Returns an image scaled to fit into a square, on light grey."""
    square = Image.new("RGB", (_SIDE, _SIDE), "#eeeeee")
    try:
        picture = (
            image_list.images[index] if image_list.is_in_memory else read_image(image_list.images[index])
        )
    except UnreadableImageError:
        draw = ImageDraw.Draw(square)
        for line in ([0, 0, _SIDE, _SIDE], [0, _SIDE, _SIDE, 0]):
            draw.line(line, fill="red", width=3)
        return square
    if image_list.boxes is not None:
        picture = crop_to_box(picture, image_list.boxes[index])
    image = Image.fromarray(np.asarray(picture))
    scale = _SIDE / max(image.size)
    size = tuple(max(1, round(scale * side)) for side in image.size)
    square.paste(image.resize(size, Image.LANCZOS), tuple((_SIDE - side) // 2 for side in size))
    return square
