"""The gallery as one HTML page without external resources, filled into the files of `page/`.

Shapes: N images of the split, n images on the map.
"""

from __future__ import annotations

import base64
import html
import io
import json
import re
from importlib import resources
from typing import Any

import numpy as np

from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.decoding import ImageOrPath
from profs_tf.utils.threads import in_threads
from profs_tf.visual.gallery_content import Neighborhoods
from profs_tf.visual.thumbnails import square_thumbnail, thumbnail

THUMBNAIL_SIZE = 96
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

    Names of classes and files, which may contain any character, are inserted as escaped text or as JSON; the
    page's script uses them as text and attributes, never as markup.

    Args:
        image_list: N images.
        found: Their nearest images.
        queries: int64, images to show with their nearest, in this order.
        map_images: int64 `[n]`, images on the map.
        map_points: float64 `[n, 2]` in the unit square.
        title: Of the page.
        method: Projection to the map, "pca" or "tsne".
    """
    data = _page_data(image_list, found, queries, map_images, map_points)
    return _fill_placeholders(
        {
            "title": html.escape(title),
            "summary": html.escape(_summary(image_list, found)),
            "note": html.escape(_note(found, len(queries))),
            "k": str(found.indices.shape[1]),
            "map_note": html.escape(
                f"{len(map_images):,} images by {_METHODS[method]}, colored by class: a dot if the "
                "nearest image is of the same class, a cross if it is not."
            ),
            "style": _page_file("gallery.css"),
            "script": _page_file("gallery.js"),
            "data": _json_in_html(data),
        }
    )


def _page_data(
    image_list: ImageList,
    found: Neighborhoods,
    queries: np.ndarray,
    map_images: np.ndarray,
    map_points: np.ndarray,
) -> dict[str, Any]:
    """Returns what the page's script reads, in which an image is a number in the list of those shown."""
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
    shown_index = {image: number for number, image in enumerate(shown.tolist())}
    return {
        "classes": list(image_list.class_names),
        "class_notes": _class_notes(image_list, found),
        "images": _images(image_list, shown),
        "queries": [
            {
                "image": shown_index[query],
                "neighbors": [
                    [shown_index[image], round(distance, 6)]
                    for image, distance in zip(found.indices[query].tolist(), found.distances[query].tolist())
                ],
            }
            for query in queries.tolist()
        ],
        "confusions": [
            {
                "classes": item.classes,
                "images": [shown_index[image] for image in item.images],
                "count": item.count,
            }
            for item in confusions
        ],
        "map": [
            [round(x, 4), round(y, 4), shown_index[image], int(found.nearest_is_positive[image])]
            for image, (x, y) in zip(map_images.tolist(), map_points.tolist())
        ],
    }


def _fill_placeholders(values: dict[str, str]) -> str:
    """Fills the page's placeholders in one pass, so that placeholders inside values stay as they are."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found.group(1)], _page_file("gallery.html"))


def _page_file(name: str) -> str:
    return resources.files("profs_tf.visual").joinpath("page").joinpath(name).read_text("utf-8").strip()


def _json_in_html(data: dict[str, Any]) -> str:
    """Returns ASCII JSON without the characters that have a meaning in HTML."""
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
    note = f" Recall leaves out {left_out:,} images, each the only one of its class." if left_out else ""
    searched = "split" if found.is_query.all() else "gallery"
    return (
        f"{num_queries:,} queries with their {found.indices.shape[1]} nearest among all other images of the "
        f"{searched}.{note}"
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
    """Returns file name, class and thumbnail of each image that the page shows."""

    def describe(index: int) -> dict[str, Any]:
        picture = image_list.images[index]
        name = f"image {index}" if isinstance(picture, np.ndarray) else re.split(r"[/\\]", picture)[-1]
        return {"name": name, "class": int(image_list.labels[index]), "uri": _data_uri(picture)}

    return list(in_threads(describe, shown.tolist()))


def _data_uri(picture: ImageOrPath) -> str:
    image = thumbnail(picture, THUMBNAIL_SIZE, enlarge=False)
    image = square_thumbnail(picture, THUMBNAIL_SIZE) if image is None else image
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode('ascii')}"
