"""Reading TF-Slim's checkpoints: what is left out and what is refused, on a network of two layers."""

import re

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.backbones.weights.slim import load_slim_checkpoint
from tests.backbones.weights.drawn_arrays import draw

WEIGHTS = {
    "Net/Block/Conv2d_1x1/weights": (1, 1, 3, 4),
    "Net/Block/Conv2d_1x1/BatchNorm/beta": (4,),
    "Net/Block/Conv2d_1x1/BatchNorm/moving_mean": (4,),
    "Net/Block/Conv2d_1x1/BatchNorm/moving_variance": (4,),
    "Net/Last/weights": (1, 1, 4, 2),
    "Net/Last/biases": (2,),
}
EXTRAS = {
    "Net/Logits/Conv2d_0c_1x1/weights": (1, 1, 2, 9),
    "Net/Logits/Conv2d_0c_1x1/biases": (9,),
    "Net/AuxLogits/Conv2d_1b_1x1/BatchNorm/beta": (3,),
    "Net/Block/Conv2d_1x1/weights/ExponentialMovingAverage": (1, 1, 3, 4),
    "Net/Block/Conv2d_1x1/BatchNorm/beta/RMSProp": (4,),
    "Net/Block/Conv2d_1x1/BatchNorm/beta/RMSProp_1": (4,),
    "Net/Last/weights/Momentum": (1, 1, 4, 2),
    "Net/Last/weights/Adam": (1, 1, 4, 2),
    "Net/Last/weights/Adam_1": (1, 1, 4, 2),
    "global_step": (),
    "beta1_power": (),
    "OtherNet/weights": (7,),
}


@pytest.fixture
def model():
    images = tf.keras.Input((None, None, 3))
    x = tf.keras.layers.Conv2D(4, 1, use_bias=False, name="Block.Conv2d_1x1")(images)
    x = tf.keras.layers.BatchNormalization(scale=False, name="Block.Conv2d_1x1.BatchNorm")(x)
    return tf.keras.Model(images, tf.keras.layers.Conv2D(2, 1, name="Last")(x))


def write(folder, values, version=tf.compat.v1.train.SaverDef.V2):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        written = {name: tf.compat.v1.Variable(value) for name, value in values.items()}
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver(written, write_version=version)
        return saver.save(session, str(folder / "net.ckpt"), write_meta_graph=False, write_state=False)


@pytest.mark.parametrize("version", [tf.compat.v1.train.SaverDef.V1, tf.compat.v1.train.SaverDef.V2])
def test_reads_every_weight_and_leaves_out_what_is_none(model, tmp_path, version):
    values = draw({**WEIGHTS, **EXTRAS})
    load_slim_checkpoint(model, write(tmp_path, values, version), "Net")
    conv, norm, last = (layer.get_weights() for layer in model.layers[1:])
    got = dict(zip(WEIGHTS, conv + norm + last))
    for name in WEIGHTS:
        np.testing.assert_array_equal(got[name], values[name], err_msg=name)


def test_reads_a_path_object(model, tmp_path):
    values = draw(WEIGHTS)
    write(tmp_path, values)
    load_slim_checkpoint(model, tmp_path / "net.ckpt", "Net")
    np.testing.assert_array_equal(model.get_layer("Last").bias, values["Net/Last/biases"])


def refused(model, path, message):
    """Loading fails with ``message``, the file is named, and the model is as it was."""
    before = model.get_weights()
    with pytest.raises(ValueError, match=message) as caught:
        load_slim_checkpoint(model, path, "Net")
    assert re.match("`pretrained` must ", str(caught.value))
    assert str(path) in str(caught.value)
    for left, right in zip(model.get_weights(), before):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("missing", list(WEIGHTS)[::3])
def test_one_missing_weight(model, tmp_path, missing):
    values = draw(WEIGHTS)
    del values[missing]
    refused(model, write(tmp_path, values), f"{missing} is missing")


@pytest.mark.parametrize("name", list(WEIGHTS)[::3])
def test_another_shape(model, tmp_path, name):
    shape = (*WEIGHTS[name][:-1], 5)
    path = write(tmp_path, draw({**WEIGHTS, name: shape}))
    refused(model, path, re.escape(f"{name} has shape {list(shape)} instead of {list(WEIGHTS[name])}"))


def test_a_weight_without_place(model, tmp_path):
    gamma = "Net/Block/Conv2d_1x1/BatchNorm/gamma"
    refused(model, write(tmp_path, draw({**WEIGHTS, gamma: (4,)})), f"{gamma} does not belong to the model")


def test_another_network(model, tmp_path):
    path = write(tmp_path, draw({f"InceptionV9/{number}/weights": (2,) for number in range(20)}))
    refused(
        model, path, r"checkpoint of Net with its 6 weights, got .* with 20 variables: Net/Block.*is missing"
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_not_finite(model, tmp_path, bad):
    values = draw(WEIGHTS)
    values["Net/Last/weights"][0, 0, 1, 1] = bad
    refused(model, write(tmp_path, values), "finite weights.*NaN or infinite: 1 of \\d+ in Net/Last/weights")


def test_no_such_file(model, tmp_path):
    refused(model, str(tmp_path / "nothing.ckpt"), "must be the path of a TensorFlow checkpoint")


@pytest.mark.parametrize("content", [b"", b"<html>404 Not Found</html>", bytes(1000)])
def test_a_file_of_another_kind(model, tmp_path, content):
    path = tmp_path / "inception_v1.ckpt"
    path.write_bytes(content)
    refused(model, str(path), "must be the path of a TensorFlow checkpoint")


@pytest.mark.parametrize("version", [tf.compat.v1.train.SaverDef.V1, tf.compat.v1.train.SaverDef.V2])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.7, 0.99])
def test_a_truncated_download(model, tmp_path, version, kept):
    path = write(tmp_path, draw(WEIGHTS), version)
    data = tmp_path / (
        "net.ckpt" if version == tf.compat.v1.train.SaverDef.V1 else "net.ckpt.data-00000-of-00001"
    )
    content = data.read_bytes()
    data.write_bytes(content[: int(kept * len(content))])
    refused(model, path, "`pretrained` must be")


def test_the_index_without_its_data(model, tmp_path):
    path = write(tmp_path, draw(WEIGHTS))
    (tmp_path / "net.ckpt.data-00000-of-00001").unlink()
    refused(model, path, "`pretrained` must be a complete checkpoint")
