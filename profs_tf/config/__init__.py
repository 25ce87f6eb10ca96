"""Every option of a training run."""

from profs_tf.config.options import Config

__all__ = ["Config"]
