"""What Keras accepts and a ProfsModel would ignore or get wrong: each refused, with the cure.

`docs/plain_keras.md` lists every argument, callback, file format and optimizer wrapper.
"""

import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf
from tensorflow.python.framework.config import is_op_determinism_enabled

from profs_tf.losses import MetricLoss
from profs_tf.metrics.scores import is_score
from profs_tf.utils.legacy_keras import check_keras_2

# What Keras would compute besides the loss, in training steps of its own that this model does not take.
_NOT_COMPUTED = ("metrics", "weighted_metrics", "loss_weights")


def arguments_of(method: Callable[..., Any], given: Sequence[Any], options: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a call of a `tf.keras.Model` method by name; raises TypeError as it would."""
    bound = inspect.signature(method).bind(None, *given, **options).arguments
    arguments = {name: value for name, value in bound.items() if name not in ("self", "kwargs")}
    return {**arguments, **bound.get("kwargs", {})}


def check_loss(loss: object) -> None:
    """Raises ValueError unless `loss` is a MetricLoss, which reads labels as classes and the query mask."""
    if not isinstance(loss, MetricLoss):
        raise ValueError(
            f"`loss` must be a MetricLoss, got {loss!r}. Pass one of profs_tf.losses, such as "
            '`profs_tf.losses.get("contrastive")`, or a subclass of profs_tf.losses.MetricLoss.'
        )


def check_compile(options: dict[str, Any], embedder: tf.keras.Model) -> None:
    """Raises ValueError for an argument of `compile` that has no effect here, or fails at the first step."""
    if options.get("jit_compile"):
        _check_compiles(embedder)
    for argument in _NOT_COMPUTED:
        if options.get(argument) is not None:
            raise ValueError(
                f"`{argument}` must be left out, got {options[argument]!r}: only the loss is computed. "
                "For Recall@K and others pass `callbacks=[RecallCallback(image_list)]` to `fit`."
            )
    if options.get("steps_per_execution") == "auto":
        raise ValueError(
            "`steps_per_execution` must be a number, got 'auto': projections start at known steps. Pass a "
            "divisor of the steps per projection."
        )
    if options.get("pss_evaluation_shards"):
        raise ValueError(
            "`pss_evaluation_shards` must be 0, got "
            f"{options['pss_evaluation_shards']!r}: parameter servers are not supported. Leave it out."
        )


def check_optimizer(optimizer: Any, variables: Sequence[tf.Variable]) -> None:
    """Raises ValueError if an optimizer that is made of several leaves out one of the variables."""
    specs = getattr(optimizer, "optimizer_specs", None)
    if specs is None:
        return
    known = {name for spec in specs for name in spec["weights"]}
    for variable in variables:
        if variable.name not in known:
            raise ValueError(
                f"`optimizer` must update every trainable variable, got a {type(optimizer).__name__} without "
                f"{variable.name}. Use `head_adam`, which also updates the loss's variables."
            )


def check_built(optimizer: Any, variables: Sequence[tf.Variable]) -> None:
    """Raises ValueError if an optimizer was built for other variables, which Keras does only once."""
    known = getattr(optimizer, "_index_dict", None)
    if known is None:
        return
    for variable in variables:
        if optimizer._var_key(variable) not in known:
            raise ValueError(
                f"`optimizer` must be a new one where variables are trained that it does not know, got one "
                f"without {variable.name}. Pass a new optimizer to `compile`."
            )


def check_class_weight(class_weight: Any) -> None:
    """Raises ValueError if class weights are given: Keras multiplies them into what is a mask here."""
    if class_weight is not None:
        raise ValueError(
            f"`class_weight` must be left out, got {class_weight!r}: sample weights are a mask of queries "
            "here. Draw some classes more often instead, with a sampler of your own."
        )


def check_fit(arguments: dict[str, Any]) -> None:
    """Raises ValueError for arguments of `fit` that would have no effect, or put batches out of order."""
    check_class_weight(arguments.get("class_weight"))
    workers, forks = arguments.get("workers", 1), arguments.get("use_multiprocessing", False)
    if isinstance(arguments.get("x"), types.GeneratorType) and (workers > 1 or forks):
        raise ValueError(
            f"`workers` must be 1 and `use_multiprocessing` False with a generator, got {workers}, {forks}: "
            "its batches must stay in order. Pass `train_pipeline(...)`, which loads images in parallel."
        )


def check_callbacks(callbacks: Sequence[tf.keras.callbacks.Callback]) -> None:
    """Raises ValueError for a callback of Keras that would fail later, or silently do the wrong thing."""
    stock = tf.keras.callbacks
    backed_up = any(isinstance(callback, stock.BackupAndRestore) for callback in callbacks)
    for callback in callbacks:
        check_keras_2("callbacks", callback)
        _check_direction(callback)
        kind = type(callback).__name__
        if isinstance(callback, stock.ModelCheckpoint):
            if callback.save_weights_only:
                check_weights_format("filepath", str(callback.filepath), None)
            else:
                check_format(str(callback.filepath), None)
        elif isinstance(callback, stock.BackupAndRestore) and callback.save_freq != "epoch":
            raise ValueError(
                f"`save_freq` of {kind} must be 'epoch', got {callback.save_freq!r}: the means of an epoch "
                "that is resumed half way would be lost. Save every epoch."
            )
        elif isinstance(callback, stock.CSVLogger) and backed_up and not callback.append:
            raise ValueError(
                f"`append` of {kind} must be True beside BackupAndRestore, got False: the file would start "
                "anew when training resumes. Pass `append=True`."
            )


def check_format(filepath: str, save_format: Optional[str]) -> None:
    """Raises ValueError unless a model is saved in Keras's own format, the one that can be loaded again."""
    if filepath.endswith(".keras") and save_format in (None, "keras"):
        return
    raise ValueError(
        f"`filepath` must end in .keras for a ProfsModel, got {filepath!r}. For a SavedModel use "
        "`profs.save_embedder(model.embedder, ...)` or `model.embedder.save(path)`; `save_weights_only=True` "
        "and `save_weights` take a path that ends in .weights.h5, or without a suffix."
    )


def check_weights_format(argument: str, filepath: str, save_format: Optional[str]) -> None:
    """Raises ValueError for Keras's old HDF5 format, which holds neither anchors nor the loss's variables."""
    is_old = filepath.endswith((".h5", ".hdf5", ".keras")) or save_format in ("h5", "hdf5", "keras")
    if is_old and not filepath.endswith(".weights.h5"):
        raise ValueError(
            f"`{argument}` must end in .weights.h5 for the weights of a ProfsModel, or have no suffix, got "
            f"{filepath!r}: that format has no anchors and no variables of the loss. For the embedder alone "
            "use `model.embedder.save_weights(path)`."
        )


def _check_direction(callback: Any) -> None:
    monitor, compare = getattr(callback, "monitor", ""), getattr(callback, "monitor_op", None)
    improves = compare is not None and compare(1.0, 0.0)
    # `mode="auto"` of Keras's callbacks takes a higher value for a worse one.
    if is_score(str(monitor)) and compare is not None and not improves:
        raise ValueError(
            f"`mode` of {type(callback).__name__} must be 'max' for {monitor}, got 'min' or 'auto', which "
            'takes a lower value for a better one. Pass `mode="max"`.'
        )


def _check_compiles(embedder: tf.keras.Model) -> None:
    if not is_op_determinism_enabled():
        return
    for layer in embedder.submodules:
        if isinstance(
            layer, (tf.keras.layers.MaxPooling1D, tf.keras.layers.MaxPooling2D, tf.keras.layers.MaxPooling3D)
        ):
            raise ValueError(
                f"`jit_compile` must be off for an embedder with max pooling ({layer.name}), got True: XLA "
                "has no deterministic kernel for its gradient. Leave it out, or use another backbone."
            )
