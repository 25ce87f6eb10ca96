"""The train command on several replicas and on several workers, as a user starts it."""

import os
import signal
import time

import pytest

from tests.commands.run_commands import STEPS_PER_EPOCH, run_command
from tests.commands.run_state import assert_same_run, log_rows, metrics_of, wait_for_checkpoint
from tests.helpers.forked_process import ForkedProcess
from tests.helpers.worker_processes import tf_configs

EMOJI = (
    "--flagfile=experiments/emoji.flags",
    "--image_resize=16",
    "--embedding_dim=16",
    "--batch_size=16",
    "--epochs=1",
    "--steps_per_epoch=3",
    "--sync_batch_norm",
    "--clustering=never",
    "--progress=none",
)


def start_workers(*arguments, **changes):
    return [
        ForkedProcess(
            "-m",
            "profs_tf.train",
            *arguments,
            "--distribute=multi_worker",
            merged=True,
            env={**os.environ, "TF_CONFIG": tf_config, **changes},
        )
        for tf_config in tf_configs(2)
    ]


def end_of(workers, expected, timeout=500):
    """Returns the workers' outputs; each must end with a code."""
    try:
        outputs = [worker.communicate(timeout=timeout)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    for worker, output, code in zip(workers, outputs, expected):
        assert worker.returncode == code, output
    return outputs


@pytest.fixture(scope="module")
def one_device(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one") / "run"
    run_command("train", *EMOJI, f"--output_dir={folder}")
    return folder


def assert_close_logs(expected, got):
    rows, others = log_rows(expected), log_rows(got)
    assert len(rows) == len(others) == 2
    for row, other in zip(rows, others):
        assert row.keys() == other.keys()
        for name in row:
            if row[name]:
                # One of the 4,285 images may pass another by rounding.
                tolerance = {"abs": 3 / 4285} if "recall" in name or name == "mrr" else {"rel": 1e-4}
                assert float(other[name]) == pytest.approx(float(row[name]), **tolerance), name


def assert_whole_folder(folder):
    for name in ("config.json", "log.csv", "metrics.json", "learning_curves.png", "embedder/saved_model.pb"):
        assert (folder / name).exists(), name


@pytest.mark.slow
def test_mirrored_trains_the_emoji_as_one_device(one_device, tmp_path):
    folder = tmp_path / "run"
    done = run_command("train", *EMOJI, f"--output_dir={folder}", "--distribute=mirrored", "--cpu_replicas=2")
    assert "(2 replicas, 8 images of a batch each)" in done.stdout
    assert done.stderr == ""
    assert_close_logs(one_device, folder)
    assert_whole_folder(folder)


@pytest.mark.slow
def test_two_workers_train_the_emoji_as_one_device_and_one_of_them_writes(one_device, tmp_path):
    folder, scratch = tmp_path / "run", tmp_path / "scratch"
    scratch.mkdir()
    workers = start_workers(*EMOJI, f"--output_dir={folder}", TMPDIR=str(scratch))
    chief, other = end_of(workers, (0, 0))
    assert "(2 replicas, 8 images of a batch each)" in chief
    assert other == ""
    assert_close_logs(one_device, folder)
    assert_whole_folder(folder)
    assert not list(scratch.glob("profs_worker_*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--batch_size=6", "--cpu_replicas=4"],
            "--batch_size must be a multiple of the 4 replicas, got batches of 6.",
        ),
        (["--cpu_replicas=0"], "--cpu_replicas must be >= 2, got 0."),
    ],
)
def test_bad_use_is_refused(arguments, message, train_arguments, tmp_path):
    folder = tmp_path / "run"
    arguments = [*train_arguments, "--distribute=mirrored", f"--output_dir={folder}", *arguments]
    assert message in run_command("train", *arguments, expected=2).stderr
    assert not folder.exists()


@pytest.fixture(scope="module")
def whole_run_of_two(train_arguments, tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers") / "whole"
    end_of(start_workers(*train_arguments, f"--output_dir={folder}"), (0, 0))
    return folder


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("killed", [0, 1])
def test_the_others_stop_when_a_worker_is_killed_and_all_resume(
    killed, whole_run_of_two, train_arguments, tmp_path
):
    folder = tmp_path / "run"
    workers = start_workers(*train_arguments, f"--output_dir={folder}")
    wait_for_checkpoint(folder, workers[0], STEPS_PER_EPOCH)
    workers[killed].kill()
    begin = time.monotonic()
    expected = [1, 1]
    expected[killed] = -signal.SIGKILL
    outputs = end_of(workers, expected)
    assert time.monotonic() - begin < 60
    message = outputs[1 - killed]
    assert "Another worker stopped or cannot be reached, so this one stops too." in message
    assert f"Start all workers again with --output_dir={folder} --resume." in message
    assert "Traceback" not in message
    end_of(start_workers(f"--output_dir={folder}", "--resume", "--progress=none"), (0, 0))
    assert_same_run(whole_run_of_two, folder)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_signal_to_one_worker_saves_and_stops_all_at_one_step(whole_run_of_two, train_arguments, tmp_path):
    folder = tmp_path / "run"
    workers = start_workers(*train_arguments, "--sync_batch_norm", f"--output_dir={folder}", "--epochs=200")
    wait_for_checkpoint(folder, workers[0], STEPS_PER_EPOCH)
    workers[1].send_signal(signal.SIGTERM)
    chief, other = end_of(workers, (130, 130))
    assert "Another worker stopped at step " in chief
    assert "SIGTERM at step " in other
    step = chief.split("stopped at step ")[1].split(":")[0]
    assert f"SIGTERM at step {step}: the run is saved." in other
    epochs = int(step) // STEPS_PER_EPOCH + 1
    end_of(start_workers(f"--output_dir={folder}", "--resume", f"--epochs={epochs}"), (0, 0))
    assert metrics_of(folder)["steps"] == STEPS_PER_EPOCH * epochs


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_run_of_one_device_goes_on_with_several(train_arguments, tmp_path):
    folder = tmp_path / "run"
    run_command("train", *train_arguments, "--epochs=1", f"--output_dir={folder}")
    done = run_command(
        "train",
        f"--output_dir={folder}",
        "--resume",
        "--epochs=2",
        "--distribute=mirrored",
        "--cpu_replicas=2",
    )
    assert f"beginning at step {STEPS_PER_EPOCH}" in done.stdout
    assert metrics_of(folder)["steps"] == 2 * STEPS_PER_EPOCH
