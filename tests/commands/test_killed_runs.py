"""Runs killed by SIGKILL at any step and resumed equal, bit for bit, runs that nothing interrupted."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from profs_tf import losses
from tests.commands.run_commands import MINED, STEPS_PER_EPOCH, run_command
from tests.commands.run_state import assert_same_run, final_state, log_rows, start, wait_for_checkpoint

EPOCHS = 3
# What is computed once, at the end, is not compared here.
NOTHING_ELSE = ("--clustering=never", "--noexport")
# Name -> its flags, the loss's variable, its value before training.
RUNS = {
    "mined": (("--loss=margin", *MINED), "boundary", lambda: losses.MarginLoss().boundary),
    "mined_proxies": (
        ("--loss=proxy_nca", *MINED),
        "proxies",
        lambda: losses.ProxyNCALoss(6, 16, seed=0).proxies,
    ),
    "soft_triple": (
        ("--loss=soft_triple",),
        "centers",
        lambda: losses.SoftTripleLoss(6, 16, seed=0).centers,
    ),
    "mined_proxy_anchor": (
        ("--loss=proxy_anchor", *MINED),
        "proxies",
        lambda: losses.ProxyAnchorLoss(6, 16, seed=0).proxies,
    ),
    "proxy_nca": (("--loss=proxy_nca",), "proxies", lambda: losses.ProxyNCALoss(6, 16, seed=0).proxies),
    "margin": (("--loss=margin",), "boundary", lambda: losses.MarginLoss().boundary),
    "memory": (
        ("--loss=margin", "--xbm_size=50", "--xbm_start_step=3", *MINED),
        "stored_embeddings",
        lambda: tf.zeros([50, 16]),
    ),
    "fine_tuned": (
        (
            "--warmup_epochs=1",
            "--learning_rate_schedule=plateau",
            "--learning_rate_wait=1",
            "--weight_decay=0.1",
            "--freeze_batch_norm=statistics",
        ),
        "boundary",
        lambda: losses.MarginLoss().boundary,
    ),
}


@pytest.fixture(scope="session")
def never_killed(train_arguments, tmp_path_factory):
    """Returns the folder of the run of a name, made when it is first asked for."""
    folders = {}

    def run(name):
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp("never_killed") / name
            arguments = (*train_arguments, *RUNS[name][0], *NOTHING_ELSE)
            run_command("train", *arguments, f"--output_dir={folders[name]}")
        return folders[name]

    return run


def kill_and_resume(name, seed, train_arguments, folder):
    """Kills a run after a step drawn by the seed, a little later than a checkpoint, and goes on with it."""
    random = np.random.default_rng(seed)
    step = int(random.integers(1, EPOCHS * STEPS_PER_EPOCH - 30))
    arguments = (*train_arguments, *RUNS[name][0], *NOTHING_ELSE, "--checkpoint_every_steps=5")
    process = start(arguments, folder)
    try:
        wait_for_checkpoint(folder, process, step)
        time.sleep(random.uniform(0.0, 0.05))
    finally:
        process.kill()
        process.communicate()
    assert len(log_rows(folder)) <= EPOCHS, "it was over before it was killed"
    run_command("train", f"--output_dir={folder}", "--resume", "--progress=none")


def assert_equal_to_never_killed(name, seed, never_killed, train_arguments, tmp_path):
    folder = tmp_path / "killed"
    kill_and_resume(name, seed, train_arguments, folder)
    assert_same_run(never_killed(name), folder)
    # What the loss owns is part of the comparison, and training changed it.
    _, variable, initial = RUNS[name]
    (trained,) = (
        value
        for key, value in final_state(folder).items()
        if key.endswith(f"loss/{variable}/.ATTRIBUTES/VARIABLE_VALUE")
    )
    assert trained.shape == initial().shape
    assert np.max(np.abs(trained - initial().numpy())) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "seed"),
    [
        *(("mined", seed) for seed in range(5)),
        ("mined_proxies", 0),
        ("mined_proxies", 1),
        ("mined_proxy_anchor", 0),
        ("soft_triple", 0),
        ("soft_triple", 1),
        ("proxy_nca", 0),
        ("margin", 0),
        ("memory", 0),
        ("fine_tuned", 0),
        ("fine_tuned", 1),
    ],
)
def test_killed_anywhere_and_resumed_equals_never_killed(name, seed, never_killed, train_arguments, tmp_path):
    assert_equal_to_never_killed(name, seed, never_killed, train_arguments, tmp_path)


def test_ctrl_c_saves_though_it_ends_the_reader_of_the_output_first(train_arguments, tmp_path):
    words = (*train_arguments, *NOTHING_ELSE, "--progress=bar", "--epochs=100", "--tensorboard=none")
    words = (sys.executable, "-m", "profs_tf.train", *words, f"--output_dir={tmp_path / 'run'}")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            wait_for_checkpoint(tmp_path / "run", process, 1)
            process.stdout.close()
            process.send_signal(signal.SIGINT)
            error = process.stderr.read().decode()
            assert process.wait(60) == 130, error
        finally:
            process.kill()
    assert "the run is saved" in error


@pytest.mark.parametrize("options", [(), ("--distribute=mirrored", "--cpu_replicas=2")])
def test_dropout_of_an_own_backbone_draws_on(options, train_arguments, tmp_path):
    network = tf.keras.Sequential(
        [
            tf.keras.Input((24, 24, 3)),
            tf.keras.layers.Conv2D(8, 3, 2),
            tf.keras.layers.GlobalAveragePooling2D(),
            tf.keras.layers.Dropout(0.5),
        ]
    )
    network.save(tmp_path / "network.keras")
    given = (
        *train_arguments,
        f"--backbone={tmp_path / 'network.keras'}",
        "--tensorboard=none",
        *NOTHING_ELSE,
    )
    given = (*given, "--freeze_batch_norm=none", "--steps_per_epoch=4", *options)
    run_command("train", *given, "--epochs=2", f"--output_dir={tmp_path / 'whole'}")
    run_command("train", *given, "--epochs=1", f"--output_dir={tmp_path / 'parts'}")
    run_command("train", f"--output_dir={tmp_path / 'parts'}", "--resume", "--epochs=2", "--progress=none")
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    assert any(name.startswith("random") for name in final_state(tmp_path / "whole"))
