import json

import pytest

from profs_tf.runs.directory import RunFolder
from profs_tf.runs.log import mean_of_last_evaluations, metrics_of_log, metrics_of_run, read_log


def test_figures_of_a_run_that_goes_on_are_those_of_its_log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(
        "epoch,step,loss,recall@1,recall@2\n0,0,,0.1,0.2\n1,5,1.0,0.3,0.4\n2,10,0.9,,\n"
        "3,15,0.8,0.5,0.6\n4,20,0.7,0.5,0.7\n"
    )
    reports = metrics_of_log(path, (2, 1))
    assert reports["untrained"]["recall@1"] == 0.1
    assert (reports["best"]["epoch"], reports["best"]["recall@2"]) == (3, 0.6)
    worse = tmp_path / "worse.csv"
    worse.write_text("epoch,step,loss,recall@1\n0,0,,0.4\n1,5,1.0,0.3\n")
    assert metrics_of_log(worse, (1,))["best"]["epoch"] == 0
    assert metrics_of_log(tmp_path / "none.csv", (1,)) == {}
    # Epoch 2 was not evaluated, and epoch 0 is no part of training.
    assert mean_of_last_evaluations(read_log(path), "recall@2") == pytest.approx((0.4 + 0.6 + 0.7) / 3)
    assert mean_of_last_evaluations(read_log(worse), "recall@1") is None
    whole = {"untrained": {"recall@1": 0.25}, "best": {"epoch": 7, "recall@1": 0.5}}
    folder = RunFolder(str(tmp_path))
    assert metrics_of_run(folder, (1, 2))["best"]["recall@1"] == 0.5
    folder.metrics.write_text(json.dumps(whole))
    assert metrics_of_run(folder, (1, 2)) == whole
