"""The state of callbacks inside a TensorFlow checkpoint, beside that of the model."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

_ARRAYS = (np.ndarray, np.generic)
# What Keras's callbacks count and compare from epoch to epoch, which Keras itself does not save.
_KERAS_STATES: dict[type, tuple[str, ...]] = {
    tf.keras.callbacks.EarlyStopping: ("wait", "best", "best_epoch", "stopped_epoch", "best_weights"),
    tf.keras.callbacks.ModelCheckpoint: ("best", "epochs_since_last_save"),
    tf.keras.callbacks.ReduceLROnPlateau: ("wait", "best", "cooldown_counter"),
}


class Stateful(Protocol):
    """A callback whose state belongs to the state of a run."""

    def state(self) -> dict[str, Any]:
        """Returns values that JSON holds, and arrays."""

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""


class CallbackStates(tf.train.experimental.PythonState):
    """Saves and restores callbacks with a checkpoint: plain values as JSON, arrays beside it."""

    def __init__(self, callbacks: Mapping[str, Stateful]) -> None:
        """Takes the callbacks by the names under which their states are saved."""
        super().__init__()
        self._callbacks = callbacks

    def serialize(self) -> bytes:
        """Returns the states of all callbacks."""
        plain: dict[str, dict[str, Any]] = {}
        arrays: dict[str, np.ndarray] = {}
        for name, callback in self._callbacks.items():
            state = callback.state()
            plain[name] = {key: value for key, value in state.items() if not isinstance(value, _ARRAYS)}
            arrays.update({f"{name}/{key}": state[key] for key in state if key not in plain[name]})
        file = io.BytesIO()
        np.savez(file, plain=json.dumps(plain), **arrays)
        return file.getvalue()

    def deserialize(self, string_value: bytes) -> None:
        """Restores the callbacks; a saved state whose callback is not used any more is left out."""
        with np.load(io.BytesIO(string_value), allow_pickle=False) as content:
            states = json.loads(str(content["plain"]))
            for key in content.files:
                name, _, part = key.partition("/")
                if part:
                    states[name][part] = content[key]
        for name, state in states.items():
            if name in self._callbacks:
                self._callbacks[name].restore(state)


def states_of(callbacks: Sequence[tf.keras.callbacks.Callback]) -> dict[str, Stateful]:
    """Returns the callbacks that have a state by name: those of this package and the known ones of Keras."""
    found: dict[str, Stateful] = {}
    for callback in callbacks:
        stateful = _stateful(callback)
        if stateful is not None:
            kind = type(callback).__name__
            found[f"{kind}_{sum(name.startswith(f'{kind}_') for name in found)}"] = stateful
    return found


def _stateful(callback: Any) -> Any:
    if hasattr(callback, "state") and hasattr(callback, "restore"):
        return callback
    for kind, names in _KERAS_STATES.items():
        if isinstance(callback, kind):
            return _AttributeState(callback, names)
    return None


class _AttributeState:
    """The state of a callback of Keras: some of its attributes."""

    def __init__(self, callback: tf.keras.callbacks.Callback, names: Sequence[str]) -> None:
        self._callback = callback
        self._names = names

    def state(self) -> dict[str, Any]:
        state = {name: getattr(self._callback, name) for name in self._names}
        weights = state.pop("best_weights", None) or []
        return {**state, **{f"best_weights_{number}": array for number, array in enumerate(weights)}}

    def restore(self, state: Mapping[str, Any]) -> None:
        weights = [
            state[f"best_weights_{number}"]
            for number in range(len(state))
            if f"best_weights_{number}" in state
        ]
        for name in self._names:
            if name in state:
                setattr(self._callback, name, state[name])
        if weights:
            self._callback.best_weights = weights
