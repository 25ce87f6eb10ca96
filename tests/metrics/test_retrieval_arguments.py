"""What the evaluation of retrieval accepts, and what it refuses."""

import subprocess
import sys

import numpy as np
import pytest

from profs_tf import metrics


def test_accepts_what_a_model_and_a_dataset_hand_over():
    import tensorflow as tf

    generator = np.random.default_rng(7)
    embeddings = generator.integers(-4, 5, (30, 4)).astype(np.float32)
    labels = np.arange(30) % 6
    expected = metrics.recall_at_k(embeddings, labels)
    names = np.array(["a b", "ü", "c", "d", "e", "f"])[labels]
    for given_embeddings in (
        tf.constant(embeddings),
        tf.cast(embeddings, tf.bfloat16),
        embeddings.astype("f2"),
    ):
        assert metrics.recall_at_k(given_embeddings, labels) == expected
    for given_labels in (
        labels.tolist(),
        labels.astype(np.float32),
        labels[:, None],
        labels * -(2**40),
        tf.constant(labels),
        names,
        names.tolist(),
        names.astype(object),
        tf.constant(names),
        [name.encode() for name in names],
    ):
        assert metrics.recall_at_k(embeddings, given_labels) == expected


def test_labels_of_two_sets_meet_whatever_their_types():
    import tensorflow as tf

    embeddings = np.eye(3, dtype=np.float32)
    for labels, gallery_labels, ranks in [
        (tf.constant(["a", "b", "c"]), ["a", "b", "d"], [1, 1, 0]),
        (np.array([1, 2, 3], np.int8), np.array([1, 2, 4], np.uint64), [1, 1, 0]),
        # As float64, these would all be 2 ** 63 but for the first.
        (np.array([-1, 2**62 + 1, 2**62]), np.array([2**63, 2**62 + 1, 2**62 + 2], np.uint64), [0, 1, 0]),
    ]:
        result = metrics.evaluate_retrieval(
            embeddings, labels, gallery_embeddings=embeddings, gallery_labels=gallery_labels
        )
        np.testing.assert_array_equal(result.ranks, ranks)
    with pytest.raises(ValueError, match="`gallery_labels` must be of the kind of `labels`"):
        metrics.evaluate_retrieval(
            embeddings, [1, 2, 3], gallery_embeddings=embeddings, gallery_labels=["1", "2", "3"]
        )


NAN = np.array([[0.0, 1.0], [np.nan, 1.0], [1.0, np.inf]], np.float32)


FINE = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"embeddings": NAN},
            "`embeddings` must be finite, got 2 of 3 embeddings with NaN or inf.*, the first at index 1.",
        ),
        (
            {"gallery_embeddings": NAN, "gallery_labels": [0, 1, 2]},
            "`gallery_embeddings` must be finite, got 2 of 3",
        ),
        ({"embeddings": FINE[0]}, r"`embeddings` must have shape \[N, D\], got shape \(2,\)"),
        ({"embeddings": FINE[:0], "labels": []}, r"must hold at least one embedding, got shape \(0, 2\)"),
        ({"embeddings": FINE.astype(int)}, "`embeddings` must be floating point, got int64"),
        ({"labels": [0, 0]}, "`labels` must be as many as `embeddings`, got 2 labels for 3 embeddings."),
        ({"labels": np.eye(3)}, r"`labels` must have shape \[N\], one label an image, got shape \(3, 3\)"),
        ({"labels": [0.0, np.nan, 1.0]}, "`labels` must be finite, got nan."),
        ({"labels": [0.0, 0.5, 1.0]}, "`labels` must be whole numbers, got 0.5."),
        (
            {"labels": np.array(["a", np.nan, "a"], object)},
            "or all be strings, got float, str. Fill the gaps.",
        ),
        ({"labels": np.array([1, "1", 1], object)}, "or all be strings, got int, str."),
        ({"labels": [0j, 0j, 1j]}, "`labels` must be integers or strings, got complex128"),
        ({"labels": [0, 1, 2]}, "at least one class with another image in the gallery, got none: 3 queries"),
        ({"gallery_embeddings": FINE}, "must be given together, got one of them"),
        ({"gallery_labels": [0, 0, 1]}, "must be given together, got one of them"),
        (
            {"gallery_embeddings": FINE, "gallery_labels": [0]},
            "`gallery_labels` must be as many as `gallery_embeddings`, got 1",
        ),
        (
            {"gallery_embeddings": FINE[:, :1], "gallery_labels": [0, 0, 1]},
            "the dimension of `embeddings`, got 1 and 2.",
        ),
        ({"distance": "manhattan"}, "`distance` must be one of euclidean, cosine, got 'manhattan'."),
        ({"backend": "torch"}, "`backend` must be one of auto, numpy, tensorflow, got 'torch'."),
        (
            {"distance": "cosine", "embeddings": FINE * [[1], [0], [0]]},
            "not be all-zero for the cosine distance, got 2 of 3 that are, the first at index 1.",
        ),
    ],
)
def test_refuses_what_it_cannot_search(arguments, message):
    with pytest.raises(ValueError, match=message):
        metrics.evaluate_retrieval(**{"embeddings": FINE, "labels": [0, 0, 1], **arguments})


@pytest.mark.parametrize(
    ("ks", "message"),
    [
        ((1, 3), "`ks` must be <= 2, the number of gallery images a query is compared with .* got 3."),
        ((0,), "`ks` must be a whole number >= 1, got 0."),
        (-1, "`ks` must be a whole number >= 1, got -1."),
        ((1.0,), "`ks` must be a whole number >= 1, got 1.0."),
        ((True,), "`ks` must be a whole number >= 1, got True."),
        (("1",), "`ks` must be a whole number >= 1, got '1'."),
        ((), "`ks` must hold at least one K, got none."),
    ],
)
def test_refuses_impossible_ks(ks, message):
    with pytest.raises(ValueError, match=message):
        metrics.recall_at_k(FINE, [0, 0, 1], ks)
    result = metrics.evaluate_retrieval(FINE, [0, 0, 1])
    with pytest.raises(ValueError, match=message):
        result.recall_at(ks)


def test_k_may_be_the_whole_gallery():
    assert metrics.recall_at_k(FINE, [0, 0, 1], 2) == {2: 1.0}
    found = metrics.recall_at_k(FINE, [0, 0, 1], 3, gallery_embeddings=FINE, gallery_labels=[0, 1, 1])
    assert found == {3: 1.0}


def test_shows_progress_only_when_asked(capsys, monkeypatch):
    monkeypatch.setenv("PYCHARM_HOSTED", "1")
    metrics.recall_at_k(FINE, [0, 0, 1], 1)
    assert capsys.readouterr().err == ""
    metrics.recall_at_k(FINE, [0, 0, 1], 1, progress=True)
    assert "100%" in capsys.readouterr().err


def test_small_sets_need_no_tensorflow():
    code = (
        "import sys, numpy as np; from profs_tf.metrics import cluster_scores, recall_at_k;"
        "assert 'sklearn' not in sys.modules;"
        "recall_at_k(np.eye(4), [0, 0, 1, 1], 1); cluster_scores(np.eye(4), [0, 0, 1, 1]);"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
