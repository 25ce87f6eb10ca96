"""A tiny run of the train command's parts, in this process, on a split that shares classes."""

import contextlib
import io
import threading
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from profs_tf import train
from profs_tf.config import Config
from profs_tf.distribution.strategy import make_strategy
from profs_tf.runs.directory import RunFolder
from profs_tf.runs.training_run import RunCallbacks, TrainingRun


class FinishedRun(NamedTuple):
    run: TrainingRun
    callbacks: RunCallbacks
    metrics: dict
    printed: str


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    """Trains from a thread that is not the main one: classes 0 to 3 train, 2 to 5 test."""
    root = tmp_path_factory.mktemp("shared")
    rows = ["path,label,split"]
    for number in range(24):
        pixels = np.random.default_rng(number).integers(0, 256, [16, 16, 3], np.uint8)
        Image.fromarray(pixels).save(root / f"{number}.png")
        label = number // 4
        part = "train" if label < 2 or (label < 4 and number % 2) else "test"
        rows.append(f"{number}.png,class {label},{part}")
    (root / "d.csv").write_text("\n".join(rows) + "\n")
    folder = RunFolder(root / "run")
    config = Config(
        dataset=f"csv:{root / 'd.csv'}",
        output_dir=str(folder.path),
        backbone="conv4",
        embedding_dim=4,
        image_resize=16,
        batch_size=4,
        epochs=1,
        steps_per_epoch=2,
        ks=(1,),
        tensorboard="none",
    )
    results = []

    def work():
        run, callbacks = train.prepare(config, make_strategy("none"), folder, resume=False, progress="none")
        train.fit(run, callbacks)
        results.append((run, callbacks, train.finalize(run, callbacks)))

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    return FinishedRun(*results[0], printed.getvalue())
