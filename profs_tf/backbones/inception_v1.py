"""GoogLeNet with batch normalization, as TF-Slim publishes it under the name Inception V1.

Shapes: B images, H x W their height and width in pixels.

    images [B, H, W, 3], values 0..255  ->  feature map [B, ceil(H / 32), ceil(W / 32), 1024]

Szegedy et al., Going Deeper with Convolutions, CVPR 2015, table 1; batch normalization from Ioffe and
Szegedy, ICML 2015. The network of the paper's TensorFlow experiments.

Differs: from the publication as TF-Slim's network does, so that TF-Slim's weights fit. Batch normalization
    with a shift but no scale after each convolution instead of local response normalization; 3 x 3
    convolutions in the branch that the publication gives 5 x 5; a 2 x 2 last reducing pool; no auxiliary
    classifiers.

Layers carry the names of TF-Slim's variable scopes with "." for "/", which every Keras file format can store:
the kernel of "Mixed_3b.Branch_1.Conv2d_0b_3x3" is TF-Slim's
"InceptionV1/Mixed_3b/Branch_1/Conv2d_0b_3x3/weights".
"""

from __future__ import annotations

import functools
from typing import Optional

import tensorflow as tf

from profs_tf.backbones.base import InputShape, PublishedWeights, backbone, finalize, rescaled_input
from profs_tf.backbones.layers.slim import SlimLayers
from profs_tf.backbones.weights.slim import load_slim_checkpoint

SLIM_SCOPE = "InceptionV1"

# Filters of the mixed blocks: branch 0 (1x1), branch 1 (1x1, 3x3), branch 2 (1x1, 3x3), branch 3 (pool, 1x1).
_MIXED_3 = {
    "Mixed_3b": (64, (96, 128), (16, 32), 32),
    "Mixed_3c": (128, (128, 192), (32, 96), 64),
}
_MIXED_4 = {
    "Mixed_4b": (192, (96, 208), (16, 48), 64),
    "Mixed_4c": (160, (112, 224), (24, 64), 64),
    "Mixed_4d": (128, (128, 256), (24, 64), 64),
    "Mixed_4e": (112, (144, 288), (32, 64), 64),
    "Mixed_4f": (256, (160, 320), (32, 128), 128),
}
_MIXED_5 = {
    "Mixed_5b": (256, (160, 320), (32, 128), 128),
    "Mixed_5c": (384, (192, 384), (48, 128), 128),
}
# TF-Slim's scope name of this one 3 x 3 convolution breaks the pattern, and so do its published weights.
_MISNAMED = {"Mixed_5b.Branch_2.Conv2d_0b_3x3": "Mixed_5b.Branch_2.Conv2d_0a_3x3"}


@backbone(
    published=PublishedWeights(
        origin="TF-Slim's checkpoint, trained on ImageNet",
        license="its repository is under the Apache License 2.0",
        file_format="a TensorFlow checkpoint of TF-Slim",
        url="http://download.tensorflow.org/models/inception_v1_2016_08_28.tar.gz",
        files=("inception_v1.ckpt",),
    )
)
def inception_v1(
    input_shape: InputShape,
    pretrained: Optional[str],
    batch_norm_momentum: Optional[float],
    seed: Optional[int],
) -> tf.keras.Model:
    """Builds Inception V1 up to its last block: 5,592,624 trainable weights, 14,560 moving statistics.

    Args:
        input_shape: (height, width, 3).
        pretrained: Path of a TF-Slim checkpoint of this network, in either of TensorFlow's formats: the
            single file (``inception_v1.ckpt``, published as ``inception_v1_2016_08_28.tar.gz``) or the prefix
            of an index and its data files. Or of the archive that ``tools/convert_weights.py`` makes of it.
        batch_norm_momentum: Share of the old value that the moving statistics keep at each training step.
            Default: TF-Slim's 0.9997 with ``pretrained``, 0.9 without (`SlimLayers`).
        seed: Seed of the initial weights.

    Returns:
        A model from images, float32 with values 0..255 and scaled to -1..1 inside, to the output of
        "Mixed_5c".

    Raises:
        ValueError: If ``pretrained`` is not a complete checkpoint of this network.
    """
    build = SlimLayers(
        batch_norm_momentum,
        pretrained is not None,
        lambda: tf.keras.initializers.TruncatedNormal(stddev=0.01),
    )
    images, x = rescaled_input(input_shape)
    x = build.convolution(x, 64, 7, "Conv2d_1a_7x7", strides=2)
    x = build.max_pool(x, 3, "MaxPool_2a_3x3", strides=2)
    x = build.convolution(x, 64, 1, "Conv2d_2b_1x1")
    x = build.convolution(x, 192, 3, "Conv2d_2c_3x3")
    x = build.max_pool(x, 3, "MaxPool_3a_3x3", strides=2)
    x = _mixed(build, x, _MIXED_3)
    x = build.max_pool(x, 3, "MaxPool_4a_3x3", strides=2)
    x = _mixed(build, x, _MIXED_4)
    x = build.max_pool(x, 2, "MaxPool_5a_2x2", strides=2)
    x = _mixed(build, x, _MIXED_5)
    load = functools.partial(load_slim_checkpoint, scope=SLIM_SCOPE)
    return finalize(images, x, "inception_v1", seed, pretrained, load)


def _mixed(build: SlimLayers, x: tf.Tensor, blocks: dict) -> tf.Tensor:
    for block, (direct, medium, wide, pooled) in blocks.items():
        branches = [build.convolution(x, direct, 1, f"{block}.Branch_0.Conv2d_0a_1x1")]
        for number, (reduced, filters) in ((1, medium), (2, wide)):
            branch = build.convolution(x, reduced, 1, f"{block}.Branch_{number}.Conv2d_0a_1x1")
            name = f"{block}.Branch_{number}.Conv2d_0b_3x3"
            branches.append(build.convolution(branch, filters, 3, _MISNAMED.get(name, name)))
        branch = build.max_pool(x, 3, f"{block}.Branch_3.MaxPool_0a_3x3")
        branches.append(build.convolution(branch, pooled, 1, f"{block}.Branch_3.Conv2d_0b_1x1"))
        x = tf.keras.layers.Concatenate(name=block)(branches)
    return x
