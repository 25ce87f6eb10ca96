"""Several replicas compute what one device computes; each case runs in processes of its own."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from profs_tf import replicas
from profs_tf.strategies import make_strategy

SCRIPT = Path(__file__).with_name("replica_cases.py")
FEW = (
    "margin-profs-sync-float64",
    "soft_triple-profs-frozen-float64",
    "multi_similarity-hncm-frozen-float32",
)
ALL = tuple(
    f"{loss}-{method}-{batch_norm}-{dtype}"
    for loss in ("contrastive", "margin", "lifted_structure", "multi_similarity", "n_pair")
    for method in ("profs", "hncm")
    for batch_norm, dtype in (("sync", "float64"), ("frozen", "float32"))
)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("localhost", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def tf_config(ports, index):
    workers = [f"localhost:{port}" for port in ports]
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})


def start(distribute, output, cases, **environment):
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), distribute, str(output), *cases],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    )


def finish(*processes, timeout=1500):
    outputs = [process.communicate(timeout=timeout)[0] for process in processes]
    for process, output in zip(processes, outputs):
        assert process.returncode == 0, output


def run_all_ways(cases, folder):
    """Returns what one device, two replicas in a process and each of two processes give."""
    finish(
        start("none", folder / "none.npz", cases),
        start("mirrored", folder / "mirrored.npz", cases),
    )
    ports = free_ports(2)
    finish(
        *(start("multi_worker", folder / "workers.npz", cases, TF_CONFIG=tf_config(ports, i)) for i in (0, 1))
    )
    return {
        name: dict(np.load(folder / f"{name}.npz"))
        for name in ("none", "mirrored", "workers", "workers_other")
    }


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    return run_all_ways(FEW, tmp_path_factory.mktemp("few"))


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    return run_all_ways(ALL, tmp_path_factory.mktemp("every"))


def assert_same(results, case):
    one = {name: value for name, value in results["none"].items() if name.startswith(case)}
    # Losses, penalties, embeddings, mined classes, two layers with batch normalisation, anchors, moments.
    assert len(one) > 15
    assert results["none"]["replicas"] == 1
    for way in ("mirrored", "workers", "workers_other"):
        assert results[way]["replicas"] == 2
        for name, expected in one.items():
            got = results[way][name]
            assert got.shape == expected.shape
            scale = np.abs(expected).max() if expected.size else 0.0
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * scale, err_msg=f"{way} {name}")
    for name in one:
        np.testing.assert_array_equal(results["workers"][name], results["workers_other"][name], err_msg=name)


@pytest.mark.parametrize("case", FEW)
def test_replicas_compute_what_one_device_does(case, few):
    assert_same(few, case)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("case", ALL)
def test_every_loss_on_replicas_is_that_of_one_device(case, every):
    assert_same(every, case)


def test_cases_train_mine_and_move(few):
    one = few["none"]
    for case in FEW:
        assert len(one[f"{case}/losses"]) == 20
        assert one[f"{case}/losses"][-1] != one[f"{case}/losses"][0]
        assert one[f"{case}/penalties"][-1] > 0
        assert len(one[f"{case}/mined"]) == (20 if "hncm" in case else 0)


def test_one_replica_changes_nothing():
    embeddings, labels = tf.ones([4, 3]), tf.constant([0, 0, 1, 1])
    with tf.GradientTape() as tape:
        whole = replicas.whole_batch(tape, embeddings, labels, None)
    assert whole[0] is embeddings
    assert whole[1] is labels
    assert whole[2] is None
    assert replicas.summed([labels, None], [embeddings]) == [labels, None, embeddings]
    assert replicas.mean(embeddings) is embeddings


def test_a_batch_that_replicas_do_not_divide_is_refused():
    class Three:
        num_replicas_in_sync = 3

    with pytest.raises(
        ValueError, match="`batch_size` must be a multiple of the 3 replicas, got batches of 8"
    ):
        replicas.part_size(Three(), 8)
    assert replicas.part_size(Three(), 9) == 3


def test_without_gpus_mirrored_is_refused():
    if tf.config.list_physical_devices("GPU"):
        pytest.skip("this machine has GPUs")
    with pytest.raises(ValueError, match="`distribute` mirrored needs GPUs, got none"):
        make_strategy("mirrored")


def test_an_unknown_strategy_lists_the_valid_ones():
    with pytest.raises(
        ValueError, match="`distribute` must be one of none, mirrored, multi_worker, got 'tpu'"
    ):
        make_strategy("tpu")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got none"),
        ("worker 0", "got 'worker 0'"),
        ('{"cluster": {"worker": ["a:1"]}}', "TF_CONFIG, such as"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}', "one of 0 to 0, got 1"),
        (
            '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "chief", "index": 0}}',
            "worker 0 is",
        ),
    ],
)
def test_an_unusable_tf_config_is_refused(text, message, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=message):
        make_strategy("multi_worker")
