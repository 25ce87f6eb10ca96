"""Saving and loading of a ProfsModel by Keras: `.keras` and `.weights.h5` files, clones, configurations."""

from collections.abc import Mapping, MutableMapping
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from profs_tf.models import keras_contract

# The name of an anchor in a file, by the place of its variable among those of `weights_in_order`.
_ANCHOR = "anchor_of_{}"


class LoadableMean(tf.keras.metrics.Mean):
    """A mean that files of Keras can be loaded into within a strategy of several replicas.

    Its variables are sums over the replicas, which Keras divides: that fails for the entries of an HDF5 file.
    """

    def load_own_variables(self, store: Mapping[str, Any]) -> None:
        """Reads the variables as arrays."""
        for number, variable in enumerate(self.variables):
            variable.assign(np.asarray(store[str(number)], np.float32))


class SavedByKeras(tf.keras.Model):
    """The part of `ProfsModel` that Keras calls to save and load it."""

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments.

        Raises:
            ValueError: If the embedder is a subclassed model, or `proximal_weight` a function of your own.
        """
        weight = self._proximal_weight
        if callable(weight) and not isinstance(weight, tf.keras.optimizers.schedules.LearningRateSchedule):
            raise ValueError(
                f"`proximal_weight` must be a number or a schedule of Keras to be saved, got {weight!r}. Use "
                "a LearningRateSchedule, or `save_weights`."
            )
        if not getattr(self.embedder, "_is_graph_network", False):
            # Keras saves any subclass, and builds it only when it is called.
            raise ValueError(
                "`embedder` must be a Functional or Sequential model to be saved, got a "
                f"{type(self.embedder).__name__}. Use `save_weights`."
            )
        embedder = tf.keras.saving.serialize_keras_object(self.embedder)
        if callable(weight):
            weight = tf.keras.saving.serialize_keras_object(weight)
        return {"embedder": embedder, "proximal_weight": weight, "name": self.name}

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], custom_objects: Optional[Mapping[str, Any]] = None
    ) -> Any:
        """Returns an equal model, not compiled, with initial weights."""
        objects = tf.keras.saving.deserialize_keras_object(
            {name: config[name] for name in ("embedder", "proximal_weight")}, custom_objects=custom_objects
        )
        return cls(**objects, name=config["name"])

    def compile_from_config(self, config: Mapping[str, Any]) -> None:
        """Compiles a loaded model as the saved one was."""
        self.compile(**tf.keras.saving.deserialize_keras_object(config))

    def save_own_variables(self, store: MutableMapping[str, np.ndarray]) -> None:
        """Writes the step and the anchors, for Keras's own file formats."""
        for name, variable in self._own_by_name().items():
            store[name] = variable.numpy()

    def load_own_variables(self, store: Mapping[str, Any]) -> None:
        """Reads what `save_own_variables` wrote.

        Anchors of layers that are frozen by now are left out.

        Raises:
            ValueError: If the file holds anchors and the model has none yet, or has more of them; if it is of
                another version.
        """
        # Files of earlier versions number the variables and hold no anchors.
        own = {**self._own_by_name(), "0": self.step, "1": self.non_finite_steps}
        names = set(store.keys())
        if not hasattr(self, "proximal") and "projection_index" in names:
            raise ValueError(
                "`filepath` holds the anchors of a compiled model, which this one is not. Call `compile` "
                "before `load_weights`."
            )
        weights = {_ANCHOR.format(place): w for place, w in enumerate(weights_in_order(self.embedder))}
        if unknown := names - set(own) - set(weights):
            raise ValueError(
                f"`filepath` must be of this embedder and version, got one that holds {min(unknown)}."
            )
        lacking = [weight.name for name, weight in weights.items() if name in own and name not in names]
        if "projection_index" in names and lacking:
            raise ValueError(
                f"`filepath` must hold an anchor of {lacking[0]}, got none: this weight did not train, or "
                "did not exist, when the file was saved. Load first; then set `trainable` and call `compile`."
            )
        for name in names & set(own):
            own[name].assign(np.asarray(store[name]))

    def save(
        self, filepath: Any, overwrite: bool = True, save_format: Optional[str] = None, **options: Any
    ) -> None:
        """As `tf.keras.Model.save`, in the format ``.keras``; raises ValueError for another one."""
        keras_contract.check_format(str(filepath), save_format)
        super().save(filepath, overwrite, save_format, **options)

    def save_weights(
        self, filepath: Any, overwrite: bool = True, save_format: Optional[str] = None, **options: Any
    ) -> None:
        """As `tf.keras.Model.save_weights`; raises ValueError for the format that would lose anchors."""
        keras_contract.check_weights_format("filepath", str(filepath), save_format)
        super().save_weights(filepath, overwrite, save_format, **options)

    def export(self, filepath: str) -> None:
        """Raises ValueError: the embedder is what is exported."""
        keras_contract.check_format(filepath, "export")

    def add_loss(self, *losses: Any, **options: Any) -> None:
        """Raises ValueError: layers of the embedder add losses, the model has its own."""
        raise ValueError("`add_loss` has no effect on a ProfsModel. Call it on a layer of the embedder.")

    def add_metric(self, *values: Any, **options: Any) -> None:
        """Raises ValueError: only the loss is computed."""
        raise ValueError(
            "`add_metric` has no effect on a ProfsModel. Use a callback, such as RecallCallback."
        )

    def _trackable_children(self, save_type: str = "checkpoint", **options: Any) -> dict[str, Any]:
        if save_type == "savedmodel":
            keras_contract.check_format("a SavedModel", "tf")
        return super()._trackable_children(save_type, **options)

    def _own_by_name(self) -> dict[str, tf.Variable]:
        own = {"step": self.step, "non_finite_steps": self.non_finite_steps}
        proximal = getattr(self, "proximal", None)
        if proximal is not None:
            own["projection_index"] = proximal.projection_index
            anchors = proximal.anchors_by_place(weights_in_order(self.embedder))
            own.update({_ANCHOR.format(place): anchor for place, anchor in anchors.items()})
        return own


def weights_in_order(embedder: tf.keras.Model) -> list[tf.Variable]:
    """Returns all weights, each once, in an order that does not depend on which layers are frozen.

    That of `embedder.weights` does, within a layer that is made of layers. A table, which it holds as well,
    is no variable.
    """
    layers = embedder._flatten_layers()
    own = [weight for layer in layers for weight in layer._trainable_weights + layer._non_trainable_weights]
    variables = [weight for weight in own + embedder.weights if isinstance(weight, tf.Variable)]
    return [reference.deref() for reference in dict.fromkeys(weight.ref() for weight in variables)]
