"""The images of a run: those that train, end projections and are evaluated."""

from __future__ import annotations

from typing import NamedTuple, Optional

from profs_tf.config import Config
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.cache import cached
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.runs.factory import hold_out_for_projections, load_data


class RunImages(NamedTuple):
    """The images of a run.

    Attributes:
        known: Of all classes that are not evaluated.
        train: Those of `known` that train.
        test: The split that is evaluated.
        projection: With CCP those of `known` that are held out to end projections; None otherwise.
    """

    known: ImageList
    train: ImageList
    test: ImageList
    projection: Optional[ImageList]

    def cached(self, config: Config, preprocessing: Preprocessing, shown: bool) -> RunImages:
        """Returns the images, decoded where the configuration asks for it.

        Args:
            config: Of the run.
            preprocessing: Of the run.
            shown: Whether progress is shown.
        """
        # Features are computed from each image once.
        where = "none" if config.train_layers == "head" and config.cache == "auto" else config.cache

        def decoded(images: ImageList) -> ImageList:
            return cached(images, preprocessing, where, config.cache_dir, progress=shown)

        train, test = decoded(self.train), decoded(self.test)
        if self.projection is None:
            return RunImages(train, train, test, None)
        return RunImages(self.known, train, test, decoded(self.projection))


def load_images(config: Config) -> RunImages:
    """Returns the images of a run; raises as `load_data` and `hold_out_for_projections`."""
    known, test = load_data(config)
    train, projection = hold_out_for_projections(config, known)
    return RunImages(known, train, test, projection)
