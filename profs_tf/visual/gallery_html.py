"""The gallery as one HTML page that loads nothing; the files in `page/` are its form.

N images of the split.
"""

from __future__ import annotations

import base64
import html
import io
import json
import re
from importlib import resources
from typing import Any, Optional

import numpy as np

from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.decoding import ImageOrPath
from profs_tf.utils.threads import in_threads
from profs_tf.visual.gallery_content import Neighborhoods
from profs_tf.visual.thumbnails import square_thumbnail, thumbnail

THUMBNAIL_SIDE = 96
_QUALITY = 85
_METHODS = {"pca": "the first two principal components", "tsne": "t-SNE"}


def gallery_page(
    image_list: ImageList,
    found: Neighborhoods,
    queries: np.ndarray,
    map_images: np.ndarray,
    map_points: np.ndarray,
    *,
    title: str,
    method: str,
) -> str:
    """Returns the page.

    Names of classes and files, which may be anything, reach it as escaped text or as JSON, and the page's
    script makes text and attributes of them, never markup.

    Args:
        image_list: N images.
        found: their nearest images.
        queries: int64, images that are shown with their nearest, in this order.
        map_images: int64 `[n]`, images on the map.
        map_points: float64 `[n, 2]` in the unit square.
        title: the page's.
        method: name of how the map was made, "pca" or "tsne".
    """
    confusions = found.confusions()
    shown = np.unique(
        np.concatenate(
            [
                queries,
                found.indices[queries].ravel(),
                map_images,
                np.array([image for item in confusions for image in item.images], np.int64),
            ]
        )
    )
    place = {image: number for number, image in enumerate(shown.tolist())}
    data = {
        "classes": list(image_list.class_names),
        "class_notes": _class_notes(image_list, found),
        "images": _images(image_list, shown),
        "queries": [
            {
                "image": place[query],
                "neighbors": [
                    [place[image], round(distance, 6)]
                    for image, distance in zip(found.indices[query].tolist(), found.distances[query].tolist())
                ],
            }
            for query in queries.tolist()
        ],
        "confusions": [
            {"classes": item.classes, "images": [place[image] for image in item.images], "count": item.count}
            for item in confusions
        ],
        "map": [
            [round(x, 4), round(y, 4), place[image], int(found.nearest_right[image])]
            for image, (x, y) in zip(map_images.tolist(), map_points.tolist())
        ],
    }
    return _fill(
        {
            "title": html.escape(title),
            "summary": html.escape(_summary(image_list, found)),
            "note": html.escape(_note(found, len(queries))),
            "k": str(found.indices.shape[1]),
            "map_note": html.escape(
                f"{len(map_images):,} images by {_METHODS[method]}, coloured by class; a dot where the "
                "nearest image is right, a cross where it is wrong."
            ),
            "style": _page_file("gallery.css"),
            "script": _page_file("gallery.js"),
            "data": _json_in_html(data),
        }
    )


def _fill(values: dict[str, str]) -> str:
    """Puts values into the page in one pass, so that none is looked through for the others' places."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found.group(1)], _page_file("gallery.html"))


def _page_file(name: str) -> str:
    return resources.files("profs_tf.visual").joinpath("page").joinpath(name).read_text("utf-8").strip()


def _json_in_html(data: dict[str, Any]) -> str:
    """Returns JSON in ASCII without any character that means something to an HTML parser."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _summary(image_list: ImageList, found: Neighborhoods) -> str:
    ks = [k for k in (1, 2, 4, 8) if k <= found.retrieval.num_candidates]
    recalls = ", ".join(
        f"Recall@{k} {100 * value:.2f} %" for k, value in found.retrieval.recall_at(ks).items()
    )
    present = int((image_list.class_sizes > 0).sum())
    return f"{len(image_list):,} images of {present:,} classes: {recalls}."


def _note(found: Neighborhoods, num_queries: int) -> str:
    left_out = found.retrieval.num_left_out
    alone = ""
    if left_out:
        alone = f" Not counted: {left_out:,} of them, each the only one of its class."
    return (
        f"{num_queries:,} queries with their {found.indices.shape[1]} nearest among all other images of the "
        f"split.{alone}"
    )


def _class_notes(image_list: ImageList, found: Neighborhoods) -> list[str]:
    recall = found.class_recall()
    return [
        f"{size} images, Recall@1 {100 * recall[label]:.0f} %"
        if label in recall
        else f"{size} image{'' if size == 1 else 's'}"
        for label, size in enumerate(image_list.class_sizes.tolist())
    ]


def _images(image_list: ImageList, shown: np.ndarray) -> list[dict[str, Any]]:
    """Returns file name, class and thumbnail of the images that the page shows, each once."""

    def describe(index: int) -> dict[str, Any]:
        picture = image_list.images[index]
        name = f"image {index}" if isinstance(picture, np.ndarray) else re.split(r"[/\\]", picture)[-1]
        box = None if image_list.boxes is None else image_list.boxes[index]
        return {"name": name, "class": int(image_list.labels[index]), "uri": _data_uri(picture, box)}

    return list(in_threads(describe, shown.tolist()))


def _data_uri(picture: ImageOrPath, box: Optional[np.ndarray]) -> str:
    image = thumbnail(picture, THUMBNAIL_SIDE, box, enlarge=False)
    image = square_thumbnail(picture, THUMBNAIL_SIDE, box) if image is None else image
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode('ascii')}"
