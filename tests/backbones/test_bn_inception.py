"""BN-Inception against a construction of its own from the state dict, in Caffe's order of things."""

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.backbones.bn_inception import bn_inception
from tests.backbones import caffe_oracle, torch_files

# One row a block: input channels, then (name, filters, kernel side, strides) of every branch, then the pool.
AVERAGE, MAXIMUM, PASS = "average", "maximum", "pass through"
ROWS = [
    ("3a", 192, 64, (64, 64), (64, 96, 96), AVERAGE, 32),
    ("3b", 256, 64, (64, 96), (64, 96, 96), AVERAGE, 64),
    ("3c", 320, None, (128, 160), (64, 96, 96), PASS, None),
    ("4a", 576, 224, (64, 96), (96, 128, 128), AVERAGE, 128),
    ("4b", 576, 192, (96, 128), (96, 128, 128), AVERAGE, 128),
    ("4c", 576, 160, (128, 160), (128, 160, 160), AVERAGE, 128),
    ("4d", 608, 96, (128, 192), (160, 192, 192), AVERAGE, 128),
    ("4e", 608, None, (128, 192), (192, 256, 256), PASS, None),
    ("5a", 1056, 352, (192, 320), (160, 224, 224), AVERAGE, 128),
    ("5b", 1024, 352, (192, 320), (192, 224, 224), MAXIMUM, 128),
]
OUTPUTS = {
    "3a": 256, "3b": 320, "3c": 576, "4a": 576, "4b": 576,
    "4c": 608, "4d": 608, "4e": 1056, "5a": 1024, "5b": 1024,
}  # fmt: skip


def branches_of(block, inputs, direct, single, double, pool, pooled):
    """The block's branches as lists of (module, input channels, filters, kernel side, strides)."""
    name = f"inception_{block}_"
    strides = 1 if direct else 2
    found = [[(f"{name}1x1", inputs, direct, 1, 1)]] if direct else []
    found.append(
        [(f"{name}3x3_reduce", inputs, single[0], 1, 1), (f"{name}3x3", single[0], single[1], 3, strides)]
    )
    found.append(
        [
            (f"{name}double_3x3_reduce", inputs, double[0], 1, 1),
            (f"{name}double_3x3_1", double[0], double[1], 3, 1),
            (f"{name}double_3x3_2", double[1], double[2], 3, strides),
        ]
    )
    found.append([(f"{name}pool_proj", inputs, pooled, 1, 1)] if pooled else [])
    return found


STEM = [
    ("conv1_7x7_s2", 3, 64, 7, 2),
    ("conv2_3x3_reduce", 64, 64, 1, 1),
    ("conv2_3x3", 64, 192, 3, 1),
]
CONVOLUTIONS = STEM + [conv for row in ROWS for branch in branches_of(*row) for conv in branch]


@pytest.fixture(scope="module")
def state():
    """A random state dict, what published ones have besides the network's weights included."""
    rng = np.random.default_rng(0)
    values = {}
    for name, inputs, filters, side, _ in CONVOLUTIONS:
        shape = (filters, inputs, side, side)
        # Images reach the first convolution uncentered by variance: about 70 gray levels.
        scale = np.sqrt(2 / np.prod(shape[1:])) / (70 if inputs == 3 else 1)
        values[f"{name}.weight"] = rng.normal(0, scale, shape)
        values[f"{name}.bias"] = rng.normal(0, 0.2, filters)
        values[f"{name}_bn.weight"] = rng.uniform(0.7, 1.3, filters)
        values[f"{name}_bn.bias"] = rng.normal(0.1, 0.2, filters)
        values[f"{name}_bn.running_mean"] = rng.normal(0, 0.2, filters)
        values[f"{name}_bn.running_var"] = rng.uniform(0.7, 1.3, filters)
    values = {name: value.astype(np.float32) for name, value in values.items()}
    for name, *_ in CONVOLUTIONS:
        values[f"{name}_bn.num_batches_tracked"] = np.array(5, np.int64)
    values["last_linear.weight"] = np.zeros((10, 1024), np.float32)
    values["last_linear.bias"] = np.zeros(10, np.float32)
    return values


@pytest.fixture(scope="module")
def path(state, tmp_path_factory):
    return torch_files.save(tmp_path_factory.mktemp("bn_inception") / "bn_inception.pth", state)


@pytest.fixture(scope="module")
def loaded(path):
    return bn_inception(pretrained=path)


def unit(x, state, name, side, strides):
    """Convolution, batch normalization by the moving statistics, ReLU."""
    y = caffe_oracle.convolve(x, state[f"{name}.weight"], state[f"{name}.bias"], strides, side // 2)
    mean, variance = state[f"{name}_bn.running_mean"], state[f"{name}_bn.running_var"]
    y = (y - mean) / np.sqrt(variance + 1e-5) * state[f"{name}_bn.weight"] + state[f"{name}_bn.bias"]
    return np.maximum(y, 0)


def reference(images, state):
    """The outputs of the pools and blocks, by name."""
    x = images[..., ::-1] - np.array([104, 117, 128], np.float32)
    ends = {}
    for name, _, _, side, strides in STEM:
        x = unit(x, state, name, side, strides)
        if name in ("conv1_7x7_s2", "conv2_3x3"):
            x = caffe_oracle.pool(x, 3, 2)
            ends[f"pool{name[4]}_3x3_s2"] = x
    for row in ROWS:
        block, pool = row[0], row[5]
        outputs = []
        for branch in branches_of(*row)[:-1]:
            y = x
            for name, _, _, side, strides in branch:
                y = unit(y, state, name, side, strides)
            outputs.append(y)
        if pool == PASS:
            y = caffe_oracle.pool(x, 3, 2)
        else:
            y = caffe_oracle.pool(x, 3, 1, pad=1, average=pool == AVERAGE)
            y = unit(y, state, f"inception_{block}_pool_proj", 1, 1)
        x = np.concatenate([*outputs, y], -1)
        ends[f"inception_{block}"] = x
    return ends


def random_images(height, width):
    return np.random.default_rng(height).integers(0, 256, (2, height, width, 3)).astype(np.float32)


# Maps of even size at the reducing blocks; the second side has odd ones at the stem's pools.
@pytest.mark.parametrize("sides", [(64, 64), (63, 70), (102, 36)])
def test_every_block_equals_its_definition(loaded, state, sides):
    images = random_images(*sides)
    want = reference(images, state)
    got = tf.keras.Model(loaded.input, {end: loaded.get_layer(end).output for end in want})(images)
    assert [want[f"inception_{block}"].shape[-1] for block in OUTPUTS] == list(OUTPUTS.values())
    for end, value in want.items():
        assert value.std() > 0.1
        np.testing.assert_allclose(got[end], value, rtol=1e-4, atol=1e-4 * value.std(), err_msg=end)


def test_parameter_counts(loaded):
    """PyTorch's count of the network is 11,295,240 with a classifier of 1,000 classes."""
    trainable = sum(np.prod(variable.shape) for variable in loaded.trainable_variables)
    assert trainable == 10_270_240 == 11_295_240 - 1024 * 1000 - 1000
    assert sum(np.prod(variable.shape) for variable in loaded.non_trainable_variables) == 20_032


def test_the_format_before_pytorch_1_6(loaded, state, tmp_path):
    """With the vectors of batch normalization as [1, C], as an early release has them."""
    old = {
        name: value[None] if "_bn." in name and value.ndim else value
        for name, value in state.items()
        if "num_batches" not in name
    }
    again = bn_inception(pretrained=torch_files.save_legacy(tmp_path / "bn_inception.pth", old))
    assert len(again.weights) == len(loaded.weights)
    for left, right in zip(again.get_weights(), loaded.get_weights()):
        np.testing.assert_array_equal(left, right)


def test_shapes_of_the_usual_crop(loaded):
    shapes = {"pool1_3x3_s2": 56, "pool2_3x3_s2": 28}
    shapes |= {f"inception_{block}": {"3": 28, "4": 14, "5": 7}[block[0]] for block in OUTPUTS}
    shapes |= {"inception_3c": 14, "inception_4e": 7}
    ends = tf.keras.Model(loaded.input, {end: loaded.get_layer(end).output for end in shapes})
    found = ends.compute_output_shape((None, 224, 224, 3))
    assert {end: tuple(shape[1:3]) for end, shape in found.items()} == {
        end: (side, side) for end, side in shapes.items()
    }
    assert {f"inception_{block}": found[f"inception_{block}"][-1] for block in OUTPUTS} == {
        f"inception_{block}": channels for block, channels in OUTPUTS.items()
    }


@pytest.mark.parametrize("side", [bn_inception.min_size, 40, 100])
def test_sides_that_caffe_cannot_take(loaded, side):
    assert loaded(random_images(side, side)).shape[-1] == 1024


def batch_norms(model):
    return [layer for layer in model.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]


def test_momentum_of_the_statistics(loaded):
    assert {layer.momentum for layer in batch_norms(loaded)} == {0.9}
    assert {layer.epsilon for layer in batch_norms(loaded)} == {1e-5}
