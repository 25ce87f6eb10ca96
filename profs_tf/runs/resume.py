"""Starting a run or continuing it: which options may change, and the state that training begins with."""

import dataclasses
from typing import Any

from profs_tf.config import Config
from profs_tf.distribution.strategy import check_same_on_workers
from profs_tf.runs.features import start_head
from profs_tf.runs.training_run import RunCallbacks, TrainingRun
from profs_tf.runs.warm_start import find_initial_run, load_initial_weights

# Options that may differ from the saved run's.
_CHANGEABLE = ("output_dir", "epochs", "data_dir", "cache", "cache_dir", "distribute", "cpu_replicas")


def resumed_config(saved: Config, given: dict[str, Any]) -> Config:
    """Returns the saved configuration with the changeable options taken from the flags.

    Raises:
        ValueError: If another option differs from the saved run's.
    """
    for name, value in given.items():
        if name in _CHANGEABLE:
            continue
        asked = getattr(dataclasses.replace(saved, **{name: value}), name)
        if asked != getattr(saved, name):
            raise ValueError(
                f"`{name}` must stay {getattr(saved, name)} when a run is resumed, got {asked}. "
                "Leave the flag out, or start another run in another folder."
            )
    epochs = given.get("epochs", saved.epochs)
    if epochs != saved.epochs and saved.learning_rate_schedule in ("cosine", "step"):
        raise ValueError(
            f"`epochs` must stay {saved.epochs} when a run with `learning_rate_schedule` "
            f"{saved.learning_rate_schedule} is resumed, got {epochs}: the learning rate follows from it. "
            "Start another run from this one by --initial_run."
        )
    return dataclasses.replace(saved, **{name: given[name] for name in _CHANGEABLE if name in given})


def restore_state(run: TrainingRun, callbacks: RunCallbacks, resume: bool) -> None:
    """Gives a new run its initial weights, and a resumed one the state of its newest checkpoint.

    Raises:
        ValueError: If the checkpoint or the initial weights do not fit the model, or the epochs asked for are
            over already.
    """
    config, model = run.config, run.model
    if resume and not callbacks.checkpoint.restore() and run.is_chief:
        print(f"{run.folder.shared.path} has no checkpoint yet: beginning at step 0.")
    if not model.steps_taken:
        initial_run = find_initial_run(config)
        if initial_run is not None:
            load_initial_weights(run.embedder, initial_run.best_weights)
        else:
            start_head(run)
    check_same_on_workers(run.strategy, "step", model.steps_taken)
    check_epochs(config.epochs, model.steps_taken, run.steps_per_epoch)
    if resume and run.is_chief:
        # A later --resume without these flags keeps what they changed.
        run.folder.write_config(config)
    callbacks.log.keep_epochs(model.steps_taken // run.steps_per_epoch)


def check_epochs(epochs: int, steps_taken: int, steps_per_epoch: int) -> None:
    """Raises ValueError if a resumed run would end before the epoch that it is in."""
    started = -(-steps_taken // steps_per_epoch)
    if epochs < started:
        raise ValueError(
            f"`epochs` must be >= {started} to resume this run, which has taken {steps_taken} steps of "
            f"{steps_per_epoch} an epoch, got {epochs}. Raise it, or leave the flag out."
        )
