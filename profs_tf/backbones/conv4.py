"""The four-block convolutional network of the few-shot literature.

Shapes: B images, H x W their height and width in pixels, 64 feature channels.

    images [B, H, W, 3], values 0..255  ->  feature map [B, H // 16, W // 16, 64]

Four times: 3 x 3 convolution with 64 filters, batch normalization, ReLU, 2 x 2 max pooling
(Vinyals et al., Matching Networks for One Shot Learning, NeurIPS 2016, section 4.1; Snell et al.,
Prototypical Networks for Few-shot Learning, NeurIPS 2017, section 3). Small enough to train from scratch on a
CPU.

Differs: the convolutions have no bias, which batch normalization would cancel.
"""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from profs_tf.backbones.base import MOMENTUM_FROM_SCRATCH, InputShape, backbone, finalize, rescaled_input

FILTERS = 64
BLOCKS = 4


# Each block halves the map.
@backbone(min_size=2**BLOCKS)
def conv4(
    input_shape: InputShape,
    pretrained: Optional[str],
    batch_norm_momentum: Optional[float],
    seed: Optional[int],
) -> tf.keras.Model:
    """Builds the four-block network, 112,832 trainable weights for RGB images.

    Args:
        input_shape: (height, width, 3).
        pretrained: None: no weights of this network are published.
        batch_norm_momentum: Share of the old value that the moving statistics keep at each training step.
            Default 0.9.
        seed: Seed of the initial weights.

    Returns:
        A model from images, float32 with values 0..255, to the feature map before global pooling.
    """
    momentum = MOMENTUM_FROM_SCRATCH if batch_norm_momentum is None else batch_norm_momentum
    images, x = rescaled_input(input_shape)
    for block in range(1, BLOCKS + 1):
        x = tf.keras.layers.Conv2D(
            FILTERS, 3, padding="same", use_bias=False, kernel_initializer="he_normal", name=f"conv_{block}"
        )(x)
        x = tf.keras.layers.BatchNormalization(momentum=momentum, name=f"batch_norm_{block}")(x)
        x = tf.keras.layers.ReLU(name=f"relu_{block}")(x)
        x = tf.keras.layers.MaxPooling2D(2, name=f"pool_{block}")(x)
    return finalize(images, x, "conv4", seed)
