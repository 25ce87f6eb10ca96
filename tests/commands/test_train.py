import json
import signal
import time
from urllib.error import URLError

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from profs_tf import train
from profs_tf.cli import command as command_line_module
from profs_tf.config import Config
from profs_tf.models.non_finite import NonFiniteLossError
from tests.commands.run_commands import STEPS_PER_EPOCH, run_command
from tests.commands.run_state import assert_same_run, log_rows, start, wait_for_checkpoint


def test_writes_everything(whole_run):
    folder, done = whole_run
    rows = log_rows(folder)
    assert [int(row["epoch"]) for row in rows] == [0, 1, 2, 3]
    assert [int(row["step"]) for row in rows] == [0, 20, 40, 60]
    assert rows[0]["loss"] == ""
    for name in ("loss", "proximal_penalty", "projection_index", "learning_rate", "recall@1", "recall@2"):
        assert all(np.isfinite(float(row[name])) for row in rows[1:]), name
    assert float(rows[-1]["mean_pairwise_distance"]) > 0.1
    config = Config.from_json((folder / "config.json").read_text())
    assert config.steps_per_epoch == STEPS_PER_EPOCH
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["best"]["recall@1"] == max(float(row["recall@1"]) for row in rows[1:])
    assert {"nmi", "f1"} <= set(metrics["best"])
    assert metrics["untrained"]["recall@1"] == float(rows[0]["recall@1"])
    with Image.open(folder / "learning_curves.png") as curves:
        assert curves.size[0] > 1000
    assert list((folder / "tensorboard").glob("events.*"))
    assert f"{100 * metrics['best']['recall@1']:.2f}" in done.stdout
    assert done.stderr == ""


def test_tensorboard_holds_the_log(whole_run):
    folder, _ = whole_run
    (events,) = (folder / "tensorboard").glob("events.*")
    seen = {}
    for record in tf.compat.v1.train.summary_iterator(str(events)):
        for value in record.summary.value:
            seen[record.step, value.tag] = tf.make_ndarray(value.tensor)
    for row in log_rows(folder):
        step = int(row["step"])
        for name, text in row.items():
            if text and name not in ("epoch", "step"):
                assert float(seen[step, name]) == pytest.approx(float(text), rel=1e-6)
        # Six unseen classes of five pictures.
        pairs = {"positive": 6 * 10, "negative": 30 * 29 // 2 - 6 * 10}
        for name, number in pairs.items():
            assert seen[step, f"distances/{name}"][:, 2].sum() == number
        assert len(seen[step, "nearest"]) == 3
    assert len((folder / "tensorboard/projector/embeddings.tsv").read_text().splitlines()) == 30


def test_interrupted_in_every_way_and_resumed_equals_never_interrupted(whole_run, mined_arguments, tmp_path):
    folder = tmp_path / "stopped"
    arguments = (*mined_arguments, "--checkpoint_every_steps=5", "--tensorboard=none", "--noexport")
    for number, step in (
        (signal.SIGKILL, 5),
        (signal.SIGINT, 15),
        (signal.SIGTERM, STEPS_PER_EPOCH + 5),
    ):
        process = start(arguments, folder)
        wait_for_checkpoint(folder, process, step)
        time.sleep(0.02)
        process.send_signal(number)
        output, _ = process.communicate(timeout=100)
        if number == signal.SIGKILL:
            assert process.returncode == -number
        else:
            assert process.returncode == 130, output
            assert f"{number.name} at step" in output
            assert "--resume" in output
        assert len(log_rows(folder)) < 4
        arguments = ("--resume", "--progress=none")
    done = run_command("train", f"--output_dir={folder}", *arguments)
    assert "beginning at step " in done.stdout
    assert_same_run(whole_run[0], folder)


@pytest.mark.slow
def test_a_finished_run_can_be_taken_further(whole_run, mined_arguments, tmp_path):
    folder = tmp_path / "longer"
    run_command("train", *mined_arguments, "--epochs=1", f"--output_dir={folder}")
    run_command("train", f"--output_dir={folder}", "--resume", "--epochs=3", "--progress=none")
    assert_same_run(whole_run[0], folder)
    assert Config.from_json((folder / "config.json").read_text()).epochs == 3


def test_an_existing_run_is_refused_before_training(whole_run, train_arguments, monkeypatch, capsys):
    folder, _ = whole_run
    before = (folder / "metrics.json").read_bytes()
    assert run_here(monkeypatch, *train_arguments, f"--output_dir={folder}") == 2
    errors = capsys.readouterr().err
    assert "must not hold another run" in errors
    assert "Traceback" not in errors
    assert (folder / "metrics.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bathc_size=4"], "Unknown command line flag 'bathc_size'. Did you mean: batch_size ?"),
        (["--batch_size=7"], "--batch_size must be a multiple of --images_per_class = 2, got 7."),
        (["--batch_size=many"], "--batch_size must be a whole number, got 'many'."),
        (["--method=prof"], "--method must be one of baseline, "),
        (["--loss=magrin"], "--loss must be one of angular, arc_face, contrastive, "),
        (
            ["--contrastive_margin=1"],
            "--contrastive_margin is an option of the loss contrastive, but --loss is margin.",
        ),
        (["--margin_margin=-1"], "--margin_margin must be >= 0"),
        (["--margin_learning_rate=0"], "--margin_learning_rate must be > 0 and finite, got 0.0."),
        (["--backbone=vgg"], "--backbone must be one of bn_inception,"),
        (["--ks=1,99"], "--ks must be <= 29, the number of gallery images"),
        (["--ks=1,x"], "--ks must be whole numbers"),
        (["--image_resize=24", "--image_crop=48"], "--image_crop must be <= --image_resize = 24, got 48."),
        (["--steps_per_execution=7"], "--steps_per_execution must divide --steps_per_projection = 6, got 7"),
        (
            ["--image_shift=1000"],
            "--image_shift must be less than the image's side of 24 pixels, got 1000.",
        ),
        (
            ["--images_per_class=1", "--dataset=folder:nowhere"],
            "--images_per_class must be >= 2 for the loss margin, got 1: a batch",
        ),
        (["--nonormalize=3"], "normalize"),
        (["stray"], "Unexpected argument 'stray'"),
        (["--output_dir="], "--output_dir must name a folder"),
        (
            ["--output_dir=/dev/null/x"],
            "--output_dir must be a folder, got /dev/null/x",
        ),
        (["--cache_dir=/proc/x"], "--cache_dir must be writable, got /proc/x: "),
        (["--jit_compile"], "--jit_compile must be off for an embedder with max pooling"),
        (["--dataset=emojis"], "--dataset must be one of emoji, cub200"),
        (["--resume"], "--output_dir must hold a run to resume"),
    ],
)
def test_bad_use_is_refused_at_once_and_leaves_nothing(
    arguments, message, train_arguments, tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "run"
    code = run_here(monkeypatch, *train_arguments, f"--output_dir={folder}", *arguments)
    assert code == 2
    assert message in capsys.readouterr().err
    assert not folder.exists()


def run_here(monkeypatch, *arguments):
    """Runs the command not in a process of its own, which takes seconds to start; returns its exit code."""
    # Without what would change this process.
    monkeypatch.setattr(train, "make_reproducible", lambda seed: None)
    monkeypatch.setattr("profs_tf.models.keras_contract.is_op_determinism_enabled", lambda: True)
    monkeypatch.setattr(command_line_module, "_start_logging", lambda: None)
    monkeypatch.setattr("sys.argv", ["train", *arguments])
    with pytest.raises(SystemExit) as stopped:
        command_line_module.run(train.main, train.define_flags, train.USAGE)
    return stopped.value.code


@pytest.mark.parametrize(
    ("error", "code", "shown"),
    [
        (ValueError("`image` must be readable."), 2, "train: `image` must be readable."),
        (OSError(28, "No space left on device"), 1, "train: OSError: [Errno 28] No space left on device"),
        (URLError("no route"), 1, "train: URLError: <urlopen error no route>"),
        (
            tf.errors.ResourceExhaustedError(None, None, "best/weights: No space left\nNode: x"),
            1,
            "train: ResourceExhaustedError: best/weights: No space left",
        ),
    ],
)
def test_a_run_that_fails_before_its_first_step_says_why_in_a_line(
    error, code, shown, train_arguments, tmp_path, monkeypatch, capsys
):
    def fail(*arguments, **options):
        assert (tmp_path / "run" / "config.json").exists()
        raise error

    monkeypatch.setattr("profs_tf.runs.images.cached", fail)
    assert run_here(monkeypatch, *train_arguments, f"--output_dir={tmp_path / 'run'}") == code
    assert capsys.readouterr().err == f"{shown}\n"
    # After a user's error the corrected command can take the folder.
    assert (tmp_path / "run").exists() == (code == 1)


def test_a_step_that_is_not_finite_names_the_options_of_the_loss(
    train_arguments, tmp_path, monkeypatch, capsys
):
    def fail(*arguments):
        raise NonFiniteLossError("loss", 3)

    monkeypatch.setattr(train, "fit_from_step", fail)
    flags = ["--loss=sup_con", "--sup_con_temperature=1e-30", f"--output_dir={tmp_path / 'run'}"]
    assert run_here(monkeypatch, *train_arguments, *flags) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("train: The loss is not finite since step 3. Training stopped; ")
    assert "Lower the learning rate, change --sup_con_temperature=1e-30, or look at the batches" in shown


def test_a_run_that_its_patience_ended_stays_as_it_is(train_arguments, tmp_path):
    folder = tmp_path / "run"
    flags = ["--learning_rate=1e-12", "--patience=1", "--clustering=never", f"--output_dir={folder}"]
    assert "evaluations: stopping." in run_command("train", *train_arguments, *flags).stdout
    rows = log_rows(folder)
    assert len(rows) == 3  # One epoch is left.
    # As after a kill before the results were written.
    metrics = json.loads((folder / "metrics.json").read_text())
    (folder / "metrics.json").unlink()
    run_command("train", f"--output_dir={folder}", "--resume")
    assert log_rows(folder) == rows
    assert json.loads((folder / "metrics.json").read_text()) == metrics


def test_resuming_with_another_value_is_refused(whole_run, monkeypatch, capsys):
    assert run_here(monkeypatch, f"--output_dir={whole_run[0]}", "--resume", "--seed=1") == 2
    assert "--seed must stay 0 when a run is resumed, got 1." in capsys.readouterr().err


def test_missing_data_says_where_to_get_it(tmp_path, monkeypatch, capsys):
    flags = ["--flagfile=experiments/cub.flags", f"--data_dir={tmp_path}"]
    assert run_here(monkeypatch, *flags, f"--output_dir={tmp_path / 'run'}") == 2
    errors = capsys.readouterr().err
    assert "CUB_200_2011.tgz" in errors
    assert str(tmp_path) in errors
    assert not (tmp_path / "run").exists()


def test_help_teaches():
    done = run_command("train", "--help")
    assert done.stderr == ""
    for expected in (
        "--flagfile=experiments/emoji.flags",
        "--method=baseline|proximal|profs|profs_hncm",
        "--margin_boundary=FLOAT",
        "--margin_mining=hard|hard_per_query|distance_weighted|all",
        "--triplet_mining=hard|semi_hard",
        "--resume",
    ):
        assert expected in done.stdout


def test_weights_that_are_missing_are_named_before_any_work(pictures, tmp_path):
    done = run_command(
        "train",
        f"--dataset=folder:{pictures}",
        "--backbone=inception_v1",
        f"--weights_dir={tmp_path}",
        f"--output_dir={tmp_path / 'run'}",
        expected=2,
    )
    assert f"--weights_dir must hold weights of inception_v1, but there is no {tmp_path}/incep" in done.stderr
    assert "inception_v1_2016_08_28.tar.gz" in done.stderr
    assert not (tmp_path / "run").exists()
