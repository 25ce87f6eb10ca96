"""Starting a run or continuing it: which options may change, and the state that training begins with."""

import dataclasses
from typing import Any

from profs_tf import losses
from profs_tf.config import Config
from profs_tf.distribution.strategy import check_same_on_workers
from profs_tf.runs.features import start_head
from profs_tf.runs.fine_tuning import with_frozen_batch_norm
from profs_tf.runs.paths import with_absolute_paths
from profs_tf.runs.provenance import with_weights_file
from profs_tf.runs.training_run import RunCallbacks, TrainingRun
from profs_tf.runs.warm_start import find_initial_run, load_initial_weights

# Options that may differ from the saved run's.
_CHANGEABLE = (
    "output_dir",
    "epochs",
    "data_dir",
    "patience",
    "cache",
    "cache_dir",
    "distribute",
    "cpu_replicas",
    "export",
)


def resumed_config(saved: Config, given: dict[str, Any]) -> Config:
    """Returns the saved configuration with the changeable options taken from the flags.

    Raises:
        ValueError: If another option differs from the saved run's.
    """
    for name, value in given.items():
        if name == "loss_options" and given.get("loss", saved.loss) == saved.loss:
            for option, asked in value.items():
                default = saved.seed if option == "seed" else losses.options(saved.loss)[option].default
                _check_stays(f"{saved.loss}_{option}", saved.loss_options.get(option, default), asked)
        elif name not in _CHANGEABLE:
            _check_stays(name, getattr(saved, name), as_in_run(saved, name, value))
    epochs = given.get("epochs", saved.epochs)
    if epochs != saved.epochs and saved.learning_rate_schedule in ("cosine", "step"):
        raise ValueError(
            f"`epochs` must stay {saved.epochs} when a run with `learning_rate_schedule` "
            f"{saved.learning_rate_schedule} is resumed, got {epochs}: the learning rate follows from it. "
            "Start another run from this one by --initial_run."
        )
    return dataclasses.replace(saved, **{name: given[name] for name in _CHANGEABLE if name in given})


def as_in_run(saved: Config, name: str, value: Any) -> Any:
    """Returns an option's value as config.json would hold it in a new run; as it is where that fails.

    Args:
        saved: The configuration of the run, whose other options hold.
        name: Of the option.
        value: As it is asked for.
    """
    if value == getattr(saved, name):
        return value
    try:
        asked = with_absolute_paths(dataclasses.replace(saved, **{name: value}))
        if name == "pretrained":
            asked = with_weights_file(asked)
        if name == "freeze_batch_norm":
            initial = find_initial_run(saved)
            asked = with_frozen_batch_norm(asked, None if initial is None else initial.read_config())
    except (ValueError, OSError):
        return value
    return getattr(asked, name)


def _check_stays(name: str, saved: Any, asked: Any) -> None:
    if asked != saved:
        raise ValueError(
            f"`{name}` must stay {saved} when a run is resumed, got {asked}. "
            "Leave the flag out, or start another run in another folder."
        )


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
