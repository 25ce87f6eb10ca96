"""The distribution strategy of a run, the worker that writes, and the loss of a worker.

Create the strategy before any other use of TensorFlow: devices cannot be split, nor workers joined, later.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import tensorflow as tf

from profs_tf.distribution import collectives

# The errors of a collective operation when another worker is gone; TensorFlow has no single one.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.DeadlineExceededError,
    tf.errors.CancelledError,
    tf.errors.InternalError,
    tf.errors.FailedPreconditionError,
)


class LostWorkerError(Exception):
    """Another worker of the run is gone; this one cannot continue alone."""


def make_strategy(distribute: str, cpu_replicas: Optional[int] = None) -> tf.distribute.Strategy:
    """Returns TensorFlow's strategy for a value of `--distribute`.

    Args:
        distribute: "none"; "mirrored", a replica on each GPU of this machine; "multi_worker", a replica on
            each GPU (or on the CPU) of each worker listed in the environment variable TF_CONFIG.
        cpu_replicas: With "mirrored", the number of replicas on virtual CPU devices instead of GPUs.

    Raises:
        ValueError: If there is no GPU for "mirrored", TF_CONFIG is missing or invalid, or the value is
            unknown.
    """
    if distribute == "none":
        return tf.distribute.get_strategy()
    if distribute == "mirrored":
        return _mirrored(cpu_replicas)
    if distribute == "multi_worker":
        _check_tf_config(os.environ.get("TF_CONFIG", ""))
        return tf.distribute.MultiWorkerMirroredStrategy()
    raise ValueError(f"`distribute` must be one of none, mirrored, multi_worker, got {distribute!r}.")


def _mirrored(cpu_replicas: Optional[int]) -> tf.distribute.Strategy:
    if cpu_replicas is not None:
        cpu = tf.config.list_physical_devices("CPU")[0]
        parts = [tf.config.LogicalDeviceConfiguration() for _ in range(cpu_replicas)]
        tf.config.set_logical_device_configuration(cpu, parts)
        return tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(cpu_replicas)])
    gpus = tf.config.list_logical_devices("GPU")
    if not gpus:
        raise ValueError(
            "`distribute` mirrored needs GPUs, got none. Check nvidia-smi; to try it out without, add "
            "--cpu_replicas=2."
        )
    return tf.distribute.MirroredStrategy([gpu.name for gpu in gpus])


def _check_tf_config(text: str) -> None:
    example = (
        '{"cluster": {"worker": ["host0:12345", "host1:12345"]}, "task": {"type": "worker", "index": 0}}'
    )
    rule = f"`distribute` multi_worker needs the environment variable TF_CONFIG, such as {example}"
    if not text:
        raise ValueError(f"{rule}, with another index for each worker; got none.")
    try:
        config = json.loads(text)
        workers = config["cluster"]["worker"]
        kind, index = config["task"]["type"], config["task"]["index"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{rule}, got {text!r}.") from error
    if kind != "worker" or set(config["cluster"]) != {"worker"}:
        raise ValueError(f"{rule}: all tasks are workers, worker 0 is the chief; got {text!r}.")
    if not isinstance(index, int) or not 0 <= index < len(workers):
        raise ValueError(f"{rule}: the index is one of 0 to {len(workers) - 1}, got {index!r}.")


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process writes and prints: worker 0, or the only process."""
    if not collectives.is_multi_worker(strategy):
        return True
    return strategy.cluster_resolver.task_id == 0


@contextlib.contextmanager
def writable_folder(strategy: tf.distribute.Strategy, folder: Path) -> Iterator[Path]:
    """Yields the folder on the chief and a temporary one, deleted at the end, on every other worker.

    All workers must write what the chief writes: reading some variables is a collective operation.
    """
    if is_chief(strategy):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="profs_worker_") as scratch:
        yield Path(scratch)


def check_same_on_workers(strategy: tf.distribute.Strategy, name: str, number: int) -> None:
    """Waits for all workers and checks that they have the same number.

    Raises:
        ValueError: If they differ; raised on all workers, with the numbers.
    """
    if not collectives.is_multi_worker(strategy):
        return
    own = tf.constant([number], tf.int64)
    numbers = tf.function(lambda: collectives.gather(strategy, lambda _: own, 0))().numpy()
    if (numbers != number).any():
        raise ValueError(
            f"`{name}` must be the same on all workers, got {', '.join(map(str, numbers))}. "
            "`output_dir` must be a folder that all workers share."
        )


@contextlib.contextmanager
def lost_workers_explained(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Replaces TensorFlow's errors about a lost worker by one sentence.

    Raises:
        LostWorkerError: If another worker is gone.
    """
    try:
        yield
    except _LOST as error:
        if not collectives.is_multi_worker(strategy):
            raise
        reason = error.message.strip().splitlines()[-1] if error.message.strip() else type(error).__name__
        raise LostWorkerError(
            "Another worker stopped or cannot be reached, so this one stops too. Its own output tells why. "
            f"(TensorFlow: {reason[:200]})"
        ) from error
