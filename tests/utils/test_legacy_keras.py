"""Which Keras `tf.keras` is, in processes of their own."""

import importlib.metadata
import subprocess
import sys

import pytest

from profs_tf.utils import legacy_keras

HAS_KERAS_3 = tuple(map(int, importlib.metadata.version("tensorflow").split(".")[:2])) >= (2, 16)
with_keras_3 = pytest.mark.skipif(not HAS_KERAS_3, reason="this TensorFlow has no Keras 3")


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path), **environment},
    )


@with_keras_3
def test_keras_3_can_be_used_beside_it():
    code = "import keras, profs_tf, tensorflow as tf; print(keras.__version__[0], tf.keras.Model.__module__)"
    assert python(code).stdout == "3 tf_keras.src.engine.training\n"


@with_keras_3
@pytest.mark.parametrize(
    "use", ["import tensorflow as tf; tf.keras.Model", "from tensorflow.keras import layers"]
)
def test_the_cure_is_told_where_keras_3_is_in_use(use):
    done = python(f"{use}; import profs_tf")
    assert done.stderr.splitlines()[-1].startswith("ImportError: profs_tf needs tf.keras to be Keras 2, but")


@with_keras_3
def test_the_cure_is_told_where_the_environment_asks_for_keras_3():
    done = python("import profs_tf", TF_USE_LEGACY_KERAS="0")
    assert done.stderr.splitlines()[-1].endswith(
        "got TF_USE_LEGACY_KERAS=0. Set the variable to 1, or unset it."
    )


def test_a_missing_tf_keras_is_named(monkeypatch):
    monkeypatch.setattr(legacy_keras, "_tensorflow_version", lambda: (2, 21))
    monkeypatch.setattr(legacy_keras.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ImportError, match=r"beside TensorFlow 2\.21\. Install it: pip install 'tf_keras==2\.21\.\*'"
    ):
        legacy_keras.use_legacy_keras()


def test_an_older_tensorflow_is_left_alone(monkeypatch):
    monkeypatch.setattr(legacy_keras, "_tensorflow_version", lambda: (2, 15))
    monkeypatch.delenv("TF_USE_LEGACY_KERAS", raising=False)
    legacy_keras.use_legacy_keras()
    assert "TF_USE_LEGACY_KERAS" not in legacy_keras.os.environ
