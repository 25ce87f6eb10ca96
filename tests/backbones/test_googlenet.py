"""GoogLeNet against a construction of its own from Caffe's blobs, and its life without this package."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.backbones.googlenet import googlenet
from tests.backbones import caffe_oracle

# Block, input channels, filters: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, after the pool.
TABLE = [
    ("3a", 192, 64, 96, 128, 16, 32, 32),
    ("3b", 256, 128, 128, 192, 32, 96, 64),
    ("4a", 480, 192, 96, 208, 16, 48, 64),
    ("4b", 512, 160, 112, 224, 24, 64, 64),
    ("4c", 512, 128, 128, 256, 24, 64, 64),
    ("4d", 512, 112, 144, 288, 32, 64, 64),
    ("4e", 528, 256, 160, 320, 32, 128, 128),
    ("5a", 832, 256, 160, 320, 32, 128, 128),
    ("5b", 832, 384, 192, 384, 48, 128, 128),
]
# Name, input channels, filters, kernel side.
CONVOLUTIONS = [("conv1/7x7_s2", 3, 64, 7), ("conv2/3x3_reduce", 64, 64, 1), ("conv2/3x3", 64, 192, 3)]
for block, inputs, direct, reduce_3, filters_3, reduce_5, filters_5, pooled in TABLE:
    CONVOLUTIONS += [
        (f"inception_{block}/1x1", inputs, direct, 1),
        (f"inception_{block}/3x3_reduce", inputs, reduce_3, 1),
        (f"inception_{block}/3x3", reduce_3, filters_3, 3),
        (f"inception_{block}/5x5_reduce", inputs, reduce_5, 1),
        (f"inception_{block}/5x5", reduce_5, filters_5, 5),
        (f"inception_{block}/pool_proj", inputs, pooled, 1),
    ]
END_POINTS = ["pool1.3x3_s2", "pool1.norm1", "conv2.norm2", "pool2.3x3_s2", "pool3.3x3_s2", "pool4.3x3_s2"]
END_POINTS += [f"inception_{row[0]}.output" for row in TABLE]


@pytest.fixture(scope="module")
def blobs():
    """Random blobs, large enough for local response normalization to matter, and those of the classifiers."""
    rng = np.random.default_rng(0)
    values = {"loss1/fc/weights": np.zeros((4, 4)), "loss3/classifier/biases": np.zeros(10)}
    for name, inputs, filters, side in CONVOLUTIONS:
        values[f"{name}/weights"] = rng.normal(
            0, np.sqrt(2 / (inputs * side**2)), (filters, inputs, side, side)
        )
        values[f"{name}/biases"] = rng.normal(0, 5, filters)
    return {name: value.astype(np.float32) for name, value in values.items()}


@pytest.fixture(scope="module")
def path(blobs, tmp_path_factory):
    path = tmp_path_factory.mktemp("googlenet") / "googlenet.npz"
    np.savez(path, **blobs)
    return str(path)


@pytest.fixture(scope="module")
def loaded(path):
    return googlenet(pretrained=path)


def reference(images, blobs):
    """The outputs of pools, normalizations and blocks, by name."""

    def rectified(x, name):
        kernel = blobs[f"{name}/weights"]
        strides = 2 if name == "conv1/7x7_s2" else 1
        y = caffe_oracle.convolve(x, kernel, blobs[f"{name}/biases"], strides, kernel.shape[-1] // 2)
        return np.maximum(y, 0)

    ends = {}
    x = images[..., ::-1] - np.array([104, 117, 123], np.float32)
    ends["pool1.3x3_s2"] = x = caffe_oracle.pool(rectified(x, "conv1/7x7_s2"), 3, 2)
    ends["pool1.norm1"] = x = caffe_oracle.normalize_across_channels(x).astype(np.float32)
    x = rectified(rectified(x, "conv2/3x3_reduce"), "conv2/3x3")
    ends["conv2.norm2"] = x = caffe_oracle.normalize_across_channels(x).astype(np.float32)
    ends["pool2.3x3_s2"] = x = caffe_oracle.pool(x, 3, 2)
    for block, *_ in TABLE:
        name = f"inception_{block}"
        outputs = [rectified(x, f"{name}/1x1")]
        outputs += [
            rectified(rectified(x, f"{name}/{side}_reduce"), f"{name}/{side}") for side in ("3x3", "5x5")
        ]
        outputs.append(rectified(caffe_oracle.pool(x, 3, 1, pad=1), f"{name}/pool_proj"))
        ends[f"{name}.output"] = x = np.concatenate(outputs, -1)
        if block in ("3b", "4e"):
            ends[f"pool{int(block[0])}.3x3_s2"] = x = caffe_oracle.pool(x, 3, 2)
    return ends


def random_images(height, width):
    return np.random.default_rng(height).integers(0, 256, (2, height, width, 3)).astype(np.float32)


@pytest.mark.parametrize("sides", [(64, 64), (75, 50)])
def test_every_end_point_equals_its_definition(loaded, blobs, sides):
    images = random_images(*sides)
    want = reference(images, blobs)
    got = tf.keras.Model(loaded.input, {end: loaded.get_layer(end).output for end in END_POINTS})(images)
    assert set(want) == set(END_POINTS)
    for end, value in want.items():
        np.testing.assert_allclose(got[end], value, rtol=1e-4, atol=1e-4 * value.std(), err_msg=end)
    positive = want["pool1.3x3_s2"] > 0
    assert np.median(want["pool1.norm1"][positive] / want["pool1.3x3_s2"][positive]) < 0.95


def test_parameter_counts(loaded):
    """Caffe's network has 6,998,552 with its classifier of 1,000 classes and without the auxiliary ones."""
    count = sum(np.prod(variable.shape) for variable in loaded.trainable_variables)
    assert count == 5_973_552 == 6_998_552 - 1024 * 1000 - 1000
    assert not loaded.non_trainable_variables


def test_shapes_of_the_usual_crop(loaded):
    channels = dict(zip([row[0] for row in TABLE], (256, 480, 512, 512, 512, 528, 832, 832, 1024)))
    sides = {"3": 28, "4": 14, "5": 7}
    ends = {block: loaded.get_layer(f"inception_{block}.output").output for block in channels}
    found = tf.keras.Model(loaded.input, ends).compute_output_shape((None, 224, 224, 3))
    for block, shape in found.items():
        assert tuple(shape)[1:] == (sides[block[0]], sides[block[0]], channels[block])


def test_half_precision_does_not_overflow_in_the_normalization(loaded):
    """Squares of values above 256 are beyond float16."""
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        half = googlenet()
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    half.set_weights(loaded.get_weights())
    images = random_images(64, 64)
    pooled, want = tf.keras.Model(
        loaded.input, [loaded.get_layer(end).output for end in ("pool1.3x3_s2", "pool1.norm1")]
    )(images)
    got = tf.keras.Model(half.input, half.get_layer("pool1.norm1").output)(images)
    assert got.dtype == tf.float16
    assert np.max(pooled) > 256
    np.testing.assert_allclose(got, want, rtol=0.02, atol=0.5)


LOADS_ELSEWHERE = """
import sys
import numpy as np, tensorflow as tf
images = np.load("images.npy")
outputs = [tf.keras.models.load_model(path)(images).numpy() for path in ("network.keras", "network")]
assert not any(name.startswith("profs_tf") for name in sys.modules)
np.savez("outputs.npz", *outputs)
"""


@pytest.mark.slow
def test_the_normalization_loads_without_this_package(loaded, tmp_path):
    """Keras has no layer of it. The stem holds both normalizations."""
    stem = tf.keras.Model(loaded.input, loaded.get_layer("conv2.norm2").output)
    images = random_images(64, 64)
    np.save(tmp_path / "images.npy", images)
    stem.save(tmp_path / "network.keras")
    stem.save(tmp_path / "network")
    environment = {**os.environ, "PYTHONPATH": "", "CUDA_VISIBLE_DEVICES": "-1"}
    subprocess.run([sys.executable, "-c", LOADS_ELSEWHERE], cwd=tmp_path, env=environment, check=True)
    want = stem(images)
    with np.load(tmp_path / "outputs.npz") as outputs:
        assert len(outputs.files) == 2
        for name in outputs.files:
            np.testing.assert_allclose(outputs[name], want, rtol=1e-5, atol=1e-5 * np.std(want))


def test_the_smallest_image(loaded):
    assert loaded(random_images(googlenet.min_size, googlenet.min_size)).shape == (2, 1, 1, 1024)


def test_momentum_is_refused():
    with pytest.raises(ValueError, match=r"`batch_norm_momentum` must be None for googlenet.*got 0\.9"):
        googlenet(batch_norm_momentum=0.9)
