import numpy as np
import pytest

import profs_tf as profs
from profs_tf.config import Config
from profs_tf.initial_run import find_initial_weights, load_initial_weights
from profs_tf.run_folder import RunFolder


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
    load_initial_weights(embedder, config_of(initial_run=str(path), method="baseline"))
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
        find_initial_weights(config_of(initial_run=str(run[0]), **values))


def test_a_folder_without_a_best_epoch_is_refused(run, tmp_path):
    for file in (run[0] / "best").iterdir():
        file.unlink()
    for path in (run[0], tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match="`initial_run` must be the folder of a run with a best"):
            find_initial_weights(config_of(initial_run=str(path)))


def test_pretrained_weights_beside_it_are_refused():
    with pytest.raises(ValueError, match="`pretrained` must be left out with `initial_run`, got a.ckpt"):
        config_of(initial_run="runs/first", pretrained="a.ckpt")
