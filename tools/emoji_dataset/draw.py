"""Draws one icon: its SVG body, scaled to a square on white."""

from __future__ import annotations

import io

import numpy as np
import resvg_py
from emoji_dataset.join import Package
from PIL import Image

SIDE = 48  # pixels


def draw_icon(package: Package, name: str) -> np.ndarray:
    """Returns uint8 ``[48, 48, 3]``, RGB on white; icons that are not square are centered."""
    icon = package.icons[name]
    width, height = icon.get("width", package.size[0]), icon.get("height", package.size[1])
    view_box = f"{icon.get('left', 0)} {icon.get('top', 0)} {width} {height}"
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{SIDE}" height="{SIDE}" viewBox="{view_box}">{icon["body"]}</svg>'
    )
    png = resvg_py.svg_to_bytes(
        svg_string=svg, width=SIDE, height=SIDE, background="#ffffff", skip_system_fonts=True
    )
    return np.asarray(Image.open(io.BytesIO(bytes(png))).convert("RGB"))
