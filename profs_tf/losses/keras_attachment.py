"""Training a loss's own variables in a stock Keras model."""

import tensorflow as tf

from profs_tf.losses.base import MetricLoss


def attach(model: tf.keras.Model, loss: MetricLoss) -> MetricLoss:
    """Makes a stock Keras model train and save what its loss owns.

    Keras trains the variables of a model only, and silently none of its loss: boundary, centres and proxies
    would stay as they were initialised. As an attribute of the model they are variables of the model:

        model.compile("adam", loss=losses.attach(model, losses.MarginLoss()))

    They are then trained at the one learning rate of the optimiser. They are saved with the model's
    TensorFlow checkpoints, and with files ending in ``.weights.h5`` or ``.keras``; after building the model
    anew, attach a loss before loading. ProfsModel needs none of this.

    Args:
        model: a built functional or subclassed model.
        loss: a loss, with variables of its own or without.

    Returns:
        ``loss``.

    Raises:
        ValueError: Keras does not track the loss: a Sequential model tracks nothing but its layers.
    """
    model.metric_loss = loss
    tracked = {id(variable) for variable in model.trainable_variables}
    if any(id(variable) not in tracked for variable in loss.trainable_variables):
        raise ValueError(
            f"`model` must be a functional or subclassed Keras model, got {type(model).__name__}, which does "
            "not train its loss. Pass `tf.keras.Model(model.inputs, model.outputs)`."
        )
    return loss
