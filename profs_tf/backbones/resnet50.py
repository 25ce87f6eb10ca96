"""ResNet-50 of ``tf.keras.applications``, with its preprocessing inside.

Shapes: B images, H x W their height and width in pixels.

    images [B, H, W, 3], values 0..255  ->  feature map [B, ceil(H / 32), ceil(W / 32), 2048]

He et al., Deep Residual Learning for Image Recognition, CVPR 2016, table 1.

Differs: Keras's weights expect blue first. Here the first convolution's kernel is turned around once, after
    the weights are read, so that the network takes RGB as all others do and computes the same values.
"""

from __future__ import annotations

import os
from typing import Optional

import h5py
import tensorflow as tf

from profs_tf.backbones.common import MOMENTUM_FROM_SCRATCH, centred_images, check_rgb
from profs_tf.backbones.seeding import seed_kernels
from profs_tf.backbones.weights.converted import is_converted, load_converted

# Mean red, green and blue of ImageNet's training images, which Keras's published weights expect subtracted.
IMAGENET_MEAN_RGB = (123.68, 116.779, 103.939)
SMALLEST_SIDE = 32


def resnet50(
    input_shape: tuple[Optional[int], Optional[int], int] = (None, None, 3),
    *,
    pretrained: Optional[str] = None,
    batch_norm_momentum: Optional[float] = None,
    seed: Optional[int] = None,
) -> tf.keras.Model:
    """Builds ResNet-50 up to its last block: 23,534,592 trainable weights, 53,120 moving statistics.

    Args:
        input_shape: (height, width, 3); height and width may be None, otherwise at least 32 pixels.
        pretrained: "imagenet" downloads Keras's published weights; or the path of an HDF5 file that holds
            weights of ``tf.keras.applications.ResNet50(include_top=False)``, such as the published file
            ``resnet50_weights_tf_dim_ordering_tf_kernels_notop.h5``, or of what ``tools/convert_weights.py``
            made of one.
        batch_norm_momentum: Share of the old value that the moving statistics keep at each training step.
            Default: Keras's 0.99 with ``pretrained``, 0.9 without.
        seed: Makes the initial weights a pure function of this whole number; None draws them from Keras's
            global generator.

    Returns:
        A model from images, float32 with values 0..255 and centred inside, to the output of the last block.

    Raises:
        ValueError: If the images are too small or not RGB, or ``pretrained`` is not a file of these weights.
    """
    check_rgb(input_shape, SMALLEST_SIDE)
    _, centred = centred_images(input_shape, IMAGENET_MEAN_RGB)
    converted = pretrained if pretrained is not None and is_converted(pretrained) else None
    model = _read(centred, pretrained if converted is None else None)
    if batch_norm_momentum is None and pretrained is None:
        batch_norm_momentum = MOMENTUM_FROM_SCRATCH
    if batch_norm_momentum is not None:
        _set_momentum(model, batch_norm_momentum)
    if converted is not None:
        load_converted(model, converted)
    elif pretrained is not None:
        kernel = model.get_layer("conv1_conv").kernel
        kernel.assign(kernel[:, :, ::-1])
    elif seed is not None:
        seed_kernels(model, seed)
    return model


def _read(centred: tf.Tensor, pretrained: Optional[str]) -> tf.keras.Model:
    if not (
        pretrained is None
        or pretrained == "imagenet"
        or (os.path.isfile(pretrained) and h5py.is_hdf5(pretrained))
    ):
        raise ValueError(
            f'`pretrained` must be "imagenet" or the path of an HDF5 file for resnet50, got {pretrained!r}.'
        )
    try:
        return tf.keras.applications.ResNet50(include_top=False, weights=pretrained, input_tensor=centred)
    except (ValueError, OSError, KeyError) as error:
        if pretrained in (None, "imagenet"):
            raise
        raise ValueError(
            "`pretrained` must hold the weights of tf.keras.applications.ResNet50(include_top=False), got "
            f"{pretrained!r}: {error}"
        ) from error


def _set_momentum(model: tf.keras.Model, momentum: float) -> None:
    for layer in model.layers:
        if isinstance(layer, tf.keras.layers.BatchNormalization):
            layer.momentum = momentum
