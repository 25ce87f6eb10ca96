"""The images of each class: labels of any kind, indexed and sorted once."""

import numpy as np

from profs_tf.utils.array_types import Labels
from profs_tf.utils.labels import strings_or_integers


class ClassTable:
    """The images of each class, as slices of one array.

    Attributes:
        class_labels: [L] the distinct labels, sorted; class l has the label ``class_labels[l]``.
        class_of_image: int64 [N], values 0 to L-1.
        images_by_class: int64 [N], image indices sorted by class and, within a class, by index.
        starts: int64 [L], the position in `images_by_class` of each class's first image.
        sizes: int64 [L], the number of images of each class.
        position_in_class: int64 [N], the position of each image within its class.
    """

    def __init__(self, labels: Labels) -> None:
        """Sorts the images by class, O(N log N).

        Args:
            labels: [N] integers or strings; integers may be negative, not contiguous or above 2**31. Of dtype
                object too, as in a column of a table. Bytes are UTF-8.

        Raises:
            ValueError: If `labels` is empty, not one-dimensional or not integers or strings.
        """
        labels = np.asarray(labels)
        if labels.ndim != 1 or labels.size == 0:
            raise ValueError(
                f"`labels` must be one-dimensional and not empty, got shape {list(labels.shape)}. "
                "Pass one integer or string for each image."
            )
        if labels.dtype.kind in "OS":
            labels = strings_or_integers(labels)
        if labels.dtype.kind not in "iuU":
            raise ValueError(f"`labels` must be integers or strings, got dtype {labels.dtype}.")
        self.class_labels, class_of_image = np.unique(labels, return_inverse=True)
        self.class_of_image = class_of_image.astype(np.int64)
        self.images_by_class = np.argsort(self.class_of_image, kind="stable").astype(np.int64)
        self.sizes = np.bincount(self.class_of_image).astype(np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)
        self.position_in_class = np.empty(self.num_images, np.int64)
        self.position_in_class[self.images_by_class] = np.arange(self.num_images) - np.repeat(
            self.starts, self.sizes
        )

    @property
    def num_images(self) -> int:
        """N."""
        return len(self.class_of_image)

    @property
    def num_classes(self) -> int:
        """L."""
        return len(self.class_labels)
