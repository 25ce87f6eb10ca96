"""The emoji data set, which comes with the package: drawings of Unicode emoji by several vendors.

Each emoji is a class, each image one vendor's drawing of it at 48 x 48 on white; a class has 6 to 8 images.
``tools/build_emoji_dataset.py`` builds the file; NOTICE credits the drawings. The split is zero-shot: the
file records a fixed shuffle of the classes, of which the first half trains and the second half tests.
"""

from __future__ import annotations

from importlib import resources

import numpy as np

from profs_tf.datasets.image_list import ImageList


def load_emoji() -> tuple[ImageList, ImageList]:
    """Returns (train, test), in memory: uint8 ``[N, 48, 48, 3]`` RGB.

    Class names are the emoji's names, such as "grinning-face". Takes a fraction of a second and 120 MB of
    memory.
    """
    with resources.files("profs_tf.datasets").joinpath("emoji.npz").open("rb") as file:
        archive = np.load(file)
        images = ImageList(archive["images"], archive["labels"], archive["class_names"].tolist(), "emoji")
        order = archive["class_order"]
    half = len(order) // 2
    return (
        images.subset_of_classes(np.sort(order[:half]), "emoji train"),
        images.subset_of_classes(np.sort(order[half:]), "emoji test"),
    )
