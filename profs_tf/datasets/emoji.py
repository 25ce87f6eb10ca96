"""The embedded data set: vendors' drawings of Unicode emoji, for training without downloading anything.

A class is an emoji, an image one vendor's drawing of it at 48 x 48 on white; every class has 6 to 8 images.
``tools/build_emoji_dataset.py`` makes the file, and NOTICE credits the drawings. The split is zero-shot: half
of the classes, in a fixed shuffled order that the file records, train and the rest test.
"""

from __future__ import annotations

from importlib import resources

import numpy as np

from profs_tf.datasets.image_list import ImageList


def load_emoji() -> tuple[ImageList, ImageList]:
    """Returns (train, test), in memory: uint8 ``[N, 48, 48, 3]`` RGB.

    Class names are the emoji's names, such as "grinning-face". Takes a fraction of a second and 120 MB.
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
