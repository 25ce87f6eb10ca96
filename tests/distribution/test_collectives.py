"""Several replicas compute what one device computes; each case runs in processes of its own."""

import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.distribution import collectives
from profs_tf.distribution.strategy import make_strategy
from tests.helpers.forked_process import ForkedProcess
from tests.helpers.worker_processes import tf_configs

SCRIPT = Path(__file__).with_name("replica_cases.py")
FEW = ("margin+memory-hncm-sync-float64",)
CLASS_VECTORS = (
    "soft_triple-profs-frozen-float64",
    *(f"{loss}-hncm-frozen-float64" for loss in ("proxy_anchor", "norm_softmax", "cos_face", "arc_face")),
)
ALL = tuple(
    f"{loss}-{method}-{batch_norm}-{dtype}"
    for loss in ("contrastive", "margin", "lifted_structure", "multi_similarity", "n_pair", "sup_con")
    for method in ("profs", "hncm")
    for batch_norm, dtype in (("sync", "float64"), ("frozen", "float32"))
)
EACH_ITS_OWN = "contrastive-profs-own-float64"
HALF = "margin-profs-frozen-mixed_float16"


def start(distribute, output, cases, **environment):
    return ForkedProcess(SCRIPT, distribute, output, *cases, merged=True, env={**os.environ, **environment})


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
    finish(
        *(
            start("multi_worker", folder / "workers.npz", cases, TF_CONFIG=tf_config)
            for tf_config in tf_configs(2)
        )
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
    return run_all_ways((*ALL, *CLASS_VECTORS, EACH_ITS_OWN, HALF), tmp_path_factory.mktemp("every"))


def assert_same(results, case):
    one = {name: value for name, value in results["none"].items() if name.startswith(case)}
    # Losses, penalties, embeddings, mined classes, two layers with batch normalization, anchors, moments.
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
@pytest.mark.parametrize("case", [*ALL, *CLASS_VECTORS])
def test_every_loss_on_replicas_is_that_of_one_device(case, every):
    assert_same(every, case)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_batch_normalization_of_each_replica_is_the_same_in_one_process_and_two(every):
    differs = False
    for name, expected in every["none"].items():
        if name.startswith(EACH_ITS_OWN):
            one, other = every["mirrored"][name], every["workers"][name]
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-9, err_msg=name)
            np.testing.assert_array_equal(other, every["workers_other"][name], err_msg=name)
            differs |= "losses" in name and np.abs(one - expected).max() > 1e-3
    assert differs


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_replicas_scale_the_loss_as_one_device_does(every):
    one = every["none"]
    assert one[f"{HALF}/scale_0"] > 1000
    for way in ("mirrored", "workers"):
        assert every[way][f"{HALF}/scale_0"] == one[f"{HALF}/scale_0"]
        for name in ("losses", "embeddings", "weight_0"):
            expected = one[f"{HALF}/{name}"]
            # Half precision has 11 bits.
            atol = 0.01 * np.abs(expected).max()
            np.testing.assert_allclose(every[way][f"{HALF}/{name}"], expected, rtol=0, atol=atol, err_msg=way)


def test_what_replicas_would_get_wrong_is_refused(few):
    for way, number in (("mirrored", 2), ("workers", 2), ("workers_other", 2)):
        pipeline, plain, scope, tables = few[way]["refusals"]
        assert f"`batch_size` must be a multiple of the {number} replicas, got batches of 9" in pipeline
        if way == "mirrored":
            assert f"`batch_size` must be a multiple of the {number} replicas, got batches of 9" in plain
        else:
            assert "`x` must be made for the workers, got a plain data set" in plain
        assert "`loss` must be made in the scope of the model's strategy" in scope
        assert "`embedder` must hold no lookup table with several replicas" in tables


def test_weights_are_loaded_from_hdf5_within_a_strategy(few):
    assert few["mirrored"]["loaded_step"] == 2


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
        whole = collectives.gather_batch(tape, embeddings, labels, None)
    assert whole[0] is embeddings
    assert whole[1] is labels
    assert whole[2] is None
    assert collectives.sum_gradients([labels, None], [embeddings]) == ([labels, None], [embeddings])
    assert collectives.replica_mean(embeddings) is embeddings


def test_a_batch_that_replicas_do_not_divide_is_refused():
    class Three:
        num_replicas_in_sync = 3

    with pytest.raises(
        ValueError, match="`batch_size` must be a multiple of the 3 replicas, got batches of 8"
    ):
        collectives.per_replica_batch_size(Three(), 8)
    assert collectives.per_replica_batch_size(Three(), 9) == 3


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
