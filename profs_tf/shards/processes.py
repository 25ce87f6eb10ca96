"""Embeds shards in several processes of one machine, each of which takes the next shard when it is done."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import queue
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Union

import tensorflow as tf

from profs_tf.serving.loaded import SavedEmbedder
from profs_tf.shards.embedding import embed_shards
from profs_tf.shards.folder import ShardFolder
from profs_tf.shards.job import Job
from profs_tf.utils.errors import first_line

# Seconds between two looks whether all processes live.
_CHECK_SECONDS = 1.0
# What a process says besides the numbers of images, and the error that ended it.
_DONE = -1


def embed_in_processes(
    job: Job, numbers: Sequence[int], num_processes: int, advance: Callable[[int], object]
) -> None:
    """Embeds and writes shards; see `embed_shards` for arguments and errors.

    Raises:
        ChildProcessError: If a process was killed.
    """
    # In a file: a pipe would have each process wait until the one before it has imported TensorFlow.
    path = ShardFolder(job.output).temporary_file("job")
    path.write_bytes(pickle.dumps(job))
    # A fork would lack TensorFlow's threads.
    context = multiprocessing.get_context("spawn")
    tasks, messages = context.Queue(), context.Queue()
    workers = [
        context.Process(target=_work, args=(path, num_processes, tasks, messages), daemon=True)
        for _ in range(num_processes)
    ]
    for number in [*numbers, *[None] * num_processes]:
        tasks.put(number)
    try:
        for worker in workers:
            worker.start()
        waiting = num_processes
        while waiting:
            message = _next_message(messages, workers)
            if isinstance(message, BaseException):
                raise message
            if message == _DONE:
                waiting -= 1
            else:
                advance(message)
    finally:
        for worker in workers:
            if worker.pid is not None:
                worker.terminate()
                worker.join()
        tasks.cancel_join_thread()


def _next_message(messages: Any, workers: Sequence[Any]) -> Union[int, BaseException]:
    while True:
        with contextlib.suppress(queue.Empty):
            return messages.get(timeout=_CHECK_SECONDS)
        ended = next((worker for worker in workers if worker.exitcode), None)
        if ended is not None:
            raise ChildProcessError(
                f"process {ended.pid} ended with code {ended.exitcode}, perhaps for lack of memory. Run the "
                "command again to continue, with fewer processes."
            )


def _work(path: Path, num_processes: int, tasks: Any, messages: Any) -> None:
    """Embeds shards until there are no more."""
    # Ctrl-C reaches all processes of a terminal: the parent ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    tf.config.threading.set_intra_op_parallelism_threads(max(1, (os.cpu_count() or 1) // num_processes))
    job: Job = pickle.loads(path.read_bytes())
    try:
        embed_shards(job, SavedEmbedder(job.embedder), iter(tasks.get, None), messages.put)
        messages.put(_DONE)
    except (ValueError, ArithmeticError, OSError) as error:
        messages.put(error)
    except Exception as error:
        # TensorFlow's own may not survive the way to the parent.
        messages.put(ChildProcessError(first_line(error)))


def _end_with_parent() -> None:
    """Ends this process when its parent is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
