"""What the backbones of this package begin and end with: the size and scale of images, seed and weights.

Shapes: B images, H x W their height and width in pixels, C channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, Optional, Union

import tensorflow as tf

from profs_tf.backbones.seeding import seed_kernels
from profs_tf.backbones.weights.converted import load_pretrained

# Share of the old value that moving statistics keep at a training step: they start from 0 and 1, and a
# network from scratch could not be evaluated for long with the 0.99 and more that pretrained ones have.
MOMENTUM_FROM_SCRATCH = 0.9


def check_rgb(input_shape: tuple[Optional[int], Optional[int], int], smallest_side: int) -> None:
    """Raises ValueError unless ``input_shape`` is (height, width, 3), each side None or large enough."""
    height, width, channels = input_shape
    if channels != 3 or any(side is not None and side < smallest_side for side in (height, width)):
        raise ValueError(
            f"`input_shape` must be (height, width, 3) of at least {smallest_side} pixels, got {input_shape}."
        )


def scaled_images(input_shape: tuple[Optional[int], Optional[int], int]) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the input, [B, H, W, C] with values 0..255, and the same scaled to -1..1."""
    return _rescaled(input_shape, 1 / 127.5, -1.0)


def centred_images(
    input_shape: tuple[Optional[int], Optional[int], int], mean_rgb: tuple[float, float, float]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the input, [B, H, W, 3] with values 0..255, and the same less ``mean_rgb``."""
    return _rescaled(input_shape, 1.0, [-mean for mean in mean_rgb])


def _rescaled(
    input_shape: tuple[Optional[int], Optional[int], int], scale: float, offset: Union[float, Sequence[float]]
) -> tuple[tf.Tensor, tf.Tensor]:
    images = tf.keras.Input(input_shape, name="images")
    # In half precision neighbouring grey levels would fall together.
    rescale = tf.keras.layers.Rescaling(scale, offset=offset, dtype="float32", name="rescale")
    return images, rescale(images)


def finished(
    images: tf.Tensor,
    features: tf.Tensor,
    name: str,
    seed: Optional[int],
    pretrained: Optional[str] = None,
    load_published: Optional[Callable[[tf.keras.Model, str], None]] = None,
) -> tf.keras.Model:
    """Returns the model from ``images`` to ``features`` with its initial or its pretrained weights.

    Args:
        images: The input.
        features: The feature map.
        name: Of the model.
        seed: Makes the initial weights a pure function of this whole number; None leaves them as they are.
        pretrained: Path of a converted file or of published weights; None for none.
        load_published: Fills a model from published weights at a path; None where none are published.

    Raises:
        ValueError: If ``pretrained`` does not hold exactly the model's weights, or none are published.
    """
    model = tf.keras.Model(images, features, name=name)
    if seed is not None:
        seed_kernels(model, seed)
    if pretrained is not None:
        if load_published is None:
            raise ValueError(
                f"`pretrained` must be None for {name}, which has no published weights, got {pretrained!r}."
            )
        load_pretrained(model, pretrained, lambda: load_published(model, pretrained))
    return model
