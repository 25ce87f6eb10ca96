"""The log of a run: one row per epoch in a CSV file, and the same figures for TensorBoard."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

import tensorflow as tf

from profs_tf.runs.directory import RunFolder
from profs_tf.utils.files import write_atomically

if TYPE_CHECKING:
    from profs_tf.callbacks.recall import RecallCallback

# The first columns; those of the evaluation follow in the order in which they are first reported.
_COLUMNS = (
    "epoch",
    "step",
    "loss",
    "proximal_penalty",
    "projection_index",
    "learning_rate",
    "images_per_second",
)


class RunLog(tf.keras.callbacks.Callback):
    """Writes the figures of each epoch; must come after the callbacks that add to Keras's logs.

    When a run is resumed, rows of epochs that are repeated are dropped first: the log of a killed and resumed
    run equals that of an uninterrupted one except for times (`images_per_second`, `evaluation_seconds`).
    """

    def __init__(
        self,
        csv_path: Path,
        events: tf.summary.SummaryWriter,
        batch_size: int,
        recall: Optional[RecallCallback] = None,
    ) -> None:
        """Reads the existing rows.

        Args:
            csv_path: The CSV file, replaced atomically after every epoch.
            events: Writer for TensorBoard; one per folder, since TensorBoard reads one file at a time.
            batch_size: B, for `images_per_second`.
            recall: The `RecallCallback` whose `untrained` figures become the row of epoch 0, or None.
        """
        super().__init__()
        self._path = csv_path
        self._batch_size = batch_size
        self._recall = recall
        self._writer = events
        self.rows = read_log(csv_path) if csv_path.exists() else []
        self._training_seconds = 0.0
        self._steps = 0
        self._batch_began = 0.0

    def keep_epochs(self, epochs: int) -> None:
        """Drops the rows of later epochs."""
        self.rows = [row for row in self.rows if int(row["epoch"]) <= epochs]

    def on_epoch_begin(self, epoch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Writes the untrained network's row before the first epoch."""
        self._training_seconds, self._steps = 0.0, 0
        if not self.rows and self._recall is not None and self._recall.untrained:
            self._add({"epoch": 0, "step": 0, **self._recall.untrained})

    def on_train_batch_begin(self, batch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Starts the clock."""
        self._batch_began = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Stops the clock: evaluation and checkpoints are not training time."""
        self._training_seconds += time.monotonic() - self._batch_began
        self._steps = batch + 1

    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Writes the epoch's row."""
        rate = self._steps * self._batch_size / max(self._training_seconds, 1e-9)
        self._add(
            {
                "epoch": epoch + 1,
                "step": self.model.steps_taken,
                "learning_rate": float(tf.convert_to_tensor(self.model.optimizer.learning_rate)),
                "images_per_second": rate,
                **(logs or {}),
            }
        )

    def _add(self, figures: Mapping[str, float]) -> None:
        self.rows.append({name: _plain(value) for name, value in figures.items()})
        write_atomically(self._path, format_log(self.rows))
        with self._writer.as_default(step=int(figures["step"])):
            for name, value in figures.items():
                if name not in ("epoch", "step"):
                    tf.summary.scalar(name, value)
        self._writer.flush()


def format_log(rows: Sequence[Mapping[str, str]]) -> str:
    """Returns rows as CSV text; figures that a row lacks are left empty."""
    names = dict.fromkeys(name for name in _COLUMNS if any(name in row for row in rows))
    names.update(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def read_log(path: Path) -> list[dict[str, str]]:
    """Returns the rows of a log as dicts of strings, without the empty figures."""
    with open(path, encoding="utf-8", newline="") as file:
        return [{name: value for name, value in row.items() if value != ""} for row in csv.DictReader(file)]


def metrics_of_run(folder: RunFolder, ks: Sequence[int]) -> dict[str, Any]:
    """Returns the `untrained` and `best` figures of metrics.json, or of the log while the run lasts."""
    if folder.metrics.exists():
        return json.loads(folder.metrics.read_text("utf-8"))
    return metrics_of_log(folder.log, ks)


def metrics_of_log(path: Path, ks: Sequence[int]) -> dict[str, dict[str, float]]:
    """Returns `untrained` and `best` of a run that has not ended, from its log.

    Args:
        path: The run's log.csv.
        ks: The K of Recall@K; the smallest selects the best epoch, the earliest among equals, 0 included.
    """
    monitored = f"recall@{min(ks)}"
    written = read_log(path) if path.exists() else []
    rows = [{name: float(value) for name, value in row.items()} for row in written if monitored in row]
    parts = {
        "untrained": [row for row in rows if row["epoch"] == 0],
        "best": rows,
    }
    return {name: max(part, key=lambda row: row[monitored]) for name, part in parts.items() if part}


def mean_of_last_evaluations(rows: Sequence[Mapping[str, str]], name: str) -> Optional[float]:
    """Returns the mean of a metric over the last 3 evaluated epochs, which choosing an epoch cannot flatter.

    Args:
        rows: The rows of a log. The untrained network's row does not count.
        name: The metric, a column of the log.

    Returns:
        The mean; None if fewer epochs report the metric.
    """
    values = [float(row[name]) for row in rows if name in row and int(row["epoch"]) > 0][-3:]
    return sum(values) / 3 if len(values) == 3 else None


def _plain(value: Union[float, str]) -> str:
    """Returns the shortest text that reads back as the same number."""
    return str(value) if isinstance(value, (int, str)) else repr(float(value))
