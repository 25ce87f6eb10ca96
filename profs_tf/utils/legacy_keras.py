"""Chooses Keras 2, on which the package is built, where TensorFlow comes with Keras 3.

From version 2.16 on `tf.keras` is Keras 3 unless the environment variable TF_USE_LEGACY_KERAS asks for the
package tf_keras, which carries Keras 2 on. TensorFlow reads the variable when `tf.keras` is first used.
"""

import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

_VARIABLE = "TF_USE_LEGACY_KERAS"
_ON = ("1", "true", "True")
_FIRST_WITH_KERAS_3 = (2, 16)


def use_legacy_keras() -> None:
    """Makes `tf.keras` Keras 2, if it is not; imports neither TensorFlow nor Keras.

    Raises:
        ImportError: If `tf.keras` is Keras 3 already, or is to be, or tf_keras is missing.
    """
    version = _tensorflow_version()
    if version is None or version < _FIRST_WITH_KERAS_3:
        return
    if importlib.util.find_spec("tf_keras") is None:
        major, minor = version
        raise ImportError(
            f"profs_tf needs the package tf_keras beside TensorFlow {major}.{minor}. "
            f"Install it: pip install 'tf_keras=={major}.{minor}.*'"
        )
    if _is_keras_3_in_use():
        raise ImportError(
            "profs_tf needs tf.keras to be Keras 2, but it is Keras 3 already. Import profs_tf before the "
            f"first use of tf.keras, or set the environment variable {_VARIABLE}=1 before Python starts."
        )
    if os.environ.setdefault(_VARIABLE, "1") not in _ON:
        raise ImportError(
            f"profs_tf needs tf.keras to be Keras 2, got {_VARIABLE}={os.environ[_VARIABLE]}. "
            "Set the variable to 1, or unset it."
        )
    if "tensorflow" in sys.modules:
        _direct_submodules_to_legacy_keras(sys.modules["tensorflow"])


def check_keras_2(argument: str, value: object) -> None:
    """Raises ValueError if `value` is a model, optimizer or other object of Keras 3."""
    version = getattr(sys.modules.get("keras"), "__version__", "2.")
    bases = type(value).__mro__
    if not version.startswith("2.") and any(base.__module__.startswith("keras.src.") for base in bases):
        raise ValueError(
            f"`{argument}` must be made with Keras 2, got {bases[0].__name__} of Keras {version}. Make "
            "it with tf_keras, and copy weights by `new.set_weights(old.get_weights())`."
        )


def _tensorflow_version() -> "tuple[int, int] | None":
    """Returns the version of TensorFlow, or None where no TensorFlow is installed."""
    # The CPU and GPU builds have distributions of their own.
    for distribution in ("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tf-nightly"):
        try:
            major, minor = importlib.metadata.version(distribution).split(".")[:2]
        except importlib.metadata.PackageNotFoundError:
            continue
        return int(major), int(minor)
    return None


def _is_keras_3_in_use() -> bool:
    """Returns whether `tf.keras` was used already, as Keras 3."""
    keras = vars(sys.modules["tensorflow"]).get("keras") if "tensorflow" in sys.modules else None
    # Before its first use it is a lazy loader without a file; asking it for one would be its first use.
    return keras is not None and "_tf_keras" in Path(vars(keras).get("__file__", "")).parts


def _direct_submodules_to_legacy_keras(tensorflow: ModuleType) -> None:
    """Makes `from tensorflow.keras import ...` find what `tf.keras` is.

    TensorFlow does so itself if it is imported later. Otherwise Keras 3 is found, and becomes `tf.keras`.
    """
    spec = importlib.util.find_spec("tf_keras")
    if spec is None or spec.origin is None:
        return
    folder = str(Path(spec.origin).parent / "api" / "_v2")
    if folder not in tensorflow.__path__:
        tensorflow.__path__.insert(0, folder)
