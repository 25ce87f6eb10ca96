import os

import numpy as np
import pytest

import profs_tf as profs
from profs_tf.config import Config
from profs_tf.runs.directory import RunFolder
from profs_tf.runs.warm_start import find_initial_run, load_initial_weights


def config_of(**values):
    return Config(**{"backbone": "conv4", "embedding_dim": 8, **values})


@pytest.fixture
def run(tmp_path):
    """A run's folder and the embedder whose weights are its best."""
    folder = RunFolder(tmp_path / "run")
    folder.create(config_of())
    embedder = profs.build_embedder("conv4", 8, seed=1)
    embedder.save_weights(str(folder.best_weights))
    return folder.path, embedder


def test_all_weights_are_those_of_the_other_run(run):
    path, trained = run
    embedder = profs.build_embedder("conv4", 8, seed=2)
    folder = find_initial_run(config_of(initial_run=str(path), method="baseline"))
    load_initial_weights(embedder, folder.best_weights)
    for got, wanted in zip(embedder.get_weights(), trained.get_weights()):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"embedding_dim": 16}, "`initial_run` must have this run's `embedding_dim`, 16, but .* has 8"),
        ({"backbone": "inception_v1"}, "must have this run's `backbone`, inception_v1, .* --backbone=conv4"),
    ],
)
def test_another_embedder_is_refused(run, values, message):
    with pytest.raises(ValueError, match=message):
        find_initial_run(config_of(initial_run=str(run[0]), **values))


def test_a_folder_without_a_best_epoch_is_refused(run, tmp_path):
    for file in (run[0] / "best").iterdir():
        file.unlink()
    for path in (run[0], tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match="`initial_run` must be the folder of a run with a best"):
            find_initial_run(config_of(initial_run=str(path)))


def test_a_configuration_of_another_version_is_refused_with_its_file(run):
    for text in ("{", '{"sead": 1}'):
        (run[0] / "config.json").write_text(text)
        with pytest.raises(
            ValueError, match="`initial_run` must be a run that this version can read, .*json"
        ):
            find_initial_run(config_of(initial_run=str(run[0])))


def truncate_data(folder):
    os.truncate(folder / "weights.data-00000-of-00001", 500)


def truncate_index(folder):
    os.truncate(folder / "weights.index", 100)


def remove_data(folder):
    (folder / "weights.data-00000-of-00001").unlink()


@pytest.mark.parametrize("damage", [truncate_data, truncate_index, remove_data])
def test_damaged_weights_are_refused_with_their_file(run, damage):
    damage(run[0] / "best")
    embedder = profs.build_embedder("conv4", 8, seed=2)
    with pytest.raises(ValueError, match="`initial_run` must hold complete weights of this embedder, .*best"):
        load_initial_weights(embedder, run[0] / "best" / "weights")


def test_weights_of_another_embedder_are_refused(run):
    embedder = profs.build_embedder("conv4", 16, seed=2)
    with pytest.raises(ValueError, match="`initial_run` must hold complete weights of this embedder"):
        load_initial_weights(embedder, run[0] / "best" / "weights")


def test_a_weight_that_is_not_finite_is_refused_with_its_file_and_its_name(run):
    path, trained = run
    trained.get_layer("conv4").get_layer("batch_norm_2").moving_mean.assign(np.full(64, np.inf))
    trained.save_weights(str(path / "best" / "weights"))
    embedder = profs.build_embedder("conv4", 8, seed=2)
    message = "`initial_run` must have finite weights, got .*best.*: 64 of 64 in batch_norm_2/moving_mean:0"
    with pytest.raises(ValueError, match=message):
        load_initial_weights(embedder, path / "best" / "weights")


def test_no_initial_run_is_none_and_an_empty_one_is_refused():
    assert find_initial_run(config_of()) is None
    with pytest.raises(ValueError, match="`initial_run` must name the folder of a run"):
        config_of(initial_run="")


def test_pretrained_weights_beside_it_are_refused():
    with pytest.raises(ValueError, match="`pretrained` must be left out with `initial_run`, got a.ckpt"):
        config_of(initial_run="runs/first", pretrained="a.ckpt")
