"""What two runs must have in common, and how a run is started, watched and killed."""

import csv
import json
import time

import numpy as np
import tensorflow as tf

from tests.helpers.forked_process import ForkedProcess

# Figures of time differ between any two runs.
CLOCKS = ("images_per_second", "evaluation_seconds")


def log_rows(folder):
    with open(folder / "log.csv", encoding="utf-8", newline="") as file:
        return [{k: v for k, v in row.items() if k not in CLOCKS} for row in csv.DictReader(file)]


def metrics_of(folder):
    metrics = json.loads((folder / "metrics.json").read_text())
    return {
        part: {k: v for k, v in values.items() if k not in CLOCKS} if isinstance(values, dict) else values
        for part, values in metrics.items()
    }


def final_state(folder):
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(folder / "checkpoints"))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if "save_counter" not in name and not name.startswith(("memory", "_CHECKPOINTABLE"))
    }


def assert_same_run(expected, got):
    assert log_rows(expected) == log_rows(got)
    assert metrics_of(expected) == metrics_of(got)
    one, other = final_state(expected), final_state(got)
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def start(train_arguments, folder):
    return ForkedProcess("-m", "profs_tf.train", *train_arguments, f"--output_dir={folder}", merged=True)


def wait_for_checkpoint(folder, process, step):
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[0]
        newest = tf.train.latest_checkpoint(folder / "checkpoints")
        if newest and int(newest.rpartition("-")[2]) >= step:
            return
        time.sleep(0.01)
    raise TimeoutError
