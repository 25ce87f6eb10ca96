"""ResNet-50 of ``tf.keras.applications``, with its preprocessing inside.

Shapes: B images, H x W their height and width in pixels.

    images [B, H, W, 3], values 0..255  ->  feature map [B, ceil(H / 32), ceil(W / 32), 2048]

He et al., Deep Residual Learning for Image Recognition, CVPR 2016, table 1.

Differs: Keras's weights expect BGR. Here the first convolution's kernel is reversed once, after
    the weights are read, so that the network takes RGB as all others do, and computes the same values.
"""

from __future__ import annotations

import os
from typing import Optional

import h5py
import tensorflow as tf

from profs_tf.backbones.base import (
    MOMENTUM_FROM_SCRATCH,
    InputShape,
    PublishedWeights,
    backbone,
    centered_input,
)
from profs_tf.backbones.seeding import seed_kernels
from profs_tf.backbones.weights.archive import is_archive, load_archive
from profs_tf.utils.errors import first_line

# Mean red, green and blue of ImageNet's training images: the published weights expect it to be subtracted.
IMAGENET_MEAN_RGB = (123.68, 116.779, 103.939)


@backbone(
    min_size=32,
    published=PublishedWeights(
        origin="keras.applications, trained on ImageNet",
        license="the authors' release is under the MIT License",
        file_format='"imagenet", which downloads, or an HDF5 file',
        url="https://storage.googleapis.com/tensorflow/keras-applications/resnet/"
        "resnet50_weights_tf_dim_ordering_tf_kernels_notop.h5",
        files=("resnet50_weights_tf_dim_ordering_tf_kernels_notop.h5",),
        checksum="MD5 4d473c1dd8becc155b73f8504c6f6626",
    ),
)
def resnet50(
    input_shape: InputShape,
    pretrained: Optional[str],
    batch_norm_momentum: Optional[float],
    seed: Optional[int],
) -> tf.keras.Model:
    """Builds ResNet-50 up to its last block: 23,534,592 trainable weights, 53,120 moving statistics.

    Args:
        input_shape: (height, width, 3).
        pretrained: "imagenet" downloads Keras's published weights; or the path of an HDF5 file that holds
            weights of ``tf.keras.applications.ResNet50(include_top=False)``, such as the published file
            ``resnet50_weights_tf_dim_ordering_tf_kernels_notop.h5``, or of the archive that
            ``tools/convert_weights.py`` makes of one.
        batch_norm_momentum: Share of the old value that the moving statistics keep at each training step.
            Default: Keras's 0.99 with ``pretrained``, 0.9 without.
        seed: Seed of the initial weights.

    Returns:
        A model from images, float32 with values 0..255 and centered inside, to the output of the last block.

    Raises:
        ValueError: If ``pretrained`` is not a file of these weights, or they cannot be downloaded.
    """
    _, centered = centered_input(input_shape, IMAGENET_MEAN_RGB)
    archive = pretrained if pretrained is not None and is_archive(pretrained) else None
    model = _keras_resnet50(centered, pretrained if archive is None else None)
    if batch_norm_momentum is None and pretrained is None:
        batch_norm_momentum = MOMENTUM_FROM_SCRATCH
    if batch_norm_momentum is not None:
        _set_momentum(model, batch_norm_momentum)
    if archive is not None:
        load_archive(model, archive)
    elif pretrained is not None:
        kernel = model.get_layer("conv1_conv").kernel
        kernel.assign(kernel[:, :, ::-1])
    elif seed is not None:
        seed_kernels(model, seed)
    return model


def _keras_resnet50(centered: tf.Tensor, pretrained: Optional[str]) -> tf.keras.Model:
    is_file = pretrained is not None and os.path.isfile(pretrained) and h5py.is_hdf5(pretrained)
    if not is_file and pretrained not in (None, "imagenet"):
        raise ValueError(
            f'`pretrained` must be "imagenet" or the path of an HDF5 file for resnet50, got {pretrained!r}.'
        )
    try:
        return tf.keras.applications.ResNet50(include_top=False, weights=pretrained, input_tensor=centered)
    # Keras raises Exception itself where a download fails.
    except Exception as error:
        if pretrained is None:
            raise
        if not is_file:
            raise ValueError(
                f"`pretrained` must be a file where there is no network, got {pretrained!r}: "
                f"{str(error).rsplit(' -- ', 1)[-1]}."
            ) from error
        raise ValueError(
            "`pretrained` must hold the weights of tf.keras.applications.ResNet50(include_top=False), got "
            f"{pretrained!r}: {first_line(error)}"
        ) from error


def _set_momentum(model: tf.keras.Model, momentum: float) -> None:
    for layer in model.layers:
        if isinstance(layer, tf.keras.layers.BatchNormalization):
            layer.momentum = momentum
