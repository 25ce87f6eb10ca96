"""Thumbnails for sheets, strips and pages, and the font of their labels."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.decoding import ImageOrPath, UnreadableImageError, read_image
from profs_tf.inputs.preprocessing import crop_to_box


def picture_of(image_list: ImageList, index: int) -> ImageOrPath:
    """Returns an image of a list, cropped to its bounding box if any; the path of an unreadable file."""
    picture = image_list.images[index]
    if image_list.boxes is None:
        return picture
    try:
        pixels = picture if isinstance(picture, np.ndarray) else read_image(picture)
    except UnreadableImageError:
        return picture
    return np.asarray(crop_to_box(pixels, image_list.boxes[index]))


def thumbnail(picture: ImageOrPath, size: int, *, enlarge: bool = True) -> Optional[Image.Image]:
    """Returns a picture scaled so that its longer side has `size` pixels, or None if it cannot be read.

    Args:
        picture: Path of a file, or uint8 `[H, W, 3]`.
        size: In pixels.
        enlarge: Whether smaller pictures are scaled up.
    """
    try:
        pixels = picture if isinstance(picture, np.ndarray) else read_image(picture)
    except UnreadableImageError:
        return None
    image = Image.fromarray(pixels)
    scale = size / max(image.size)
    if scale > 1 and not enlarge:
        return image
    width, height = (max(1, round(scale * length)) for length in image.size)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def square_thumbnail(picture: ImageOrPath, size: int) -> Image.Image:
    """Returns a thumbnail centered in a light gray square; a crossed square if it cannot be read."""
    square = Image.new("RGB", (size, size), "#eeeeee")
    image = thumbnail(picture, size)
    if image is None:
        draw = ImageDraw.Draw(square)
        for line in ((0, 0, size, size), (0, size, size, 0)):
            draw.line(line, fill="red", width=3)
        return square
    width, height = image.size
    square.paste(image, ((size - width) // 2, (size - height) // 2))
    return square


def label_font(size: int) -> ImageFont.FreeTypeFont:
    """Returns a font for labels; Pillow's default lacks most letters."""
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"), size)
