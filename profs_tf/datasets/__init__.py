"""Data sets: every one is read into an ``ImageList``."""

from profs_tf.datasets.image_list import ImageList

__all__ = ["ImageList"]
