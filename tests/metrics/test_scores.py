from unittest import mock

import numpy as np
import pytest

from profs_tf.metrics import retrieval
from profs_tf.metrics.scores import (
    evaluate,
    evaluate_in_full,
    format_report,
    is_score,
    mean_pairwise_distance,
    query_and_gallery,
)

LABELS = np.repeat(np.arange(5), 4)


def test_a_perfect_embedding():
    report = evaluate(np.eye(5, dtype=np.float32)[LABELS], LABELS, ks=(1, 3))
    assert {name: report[name] for name in ("recall@1", "recall@3", "nmi", "f1")} == pytest.approx(
        {"recall@1": 1.0, "recall@3": 1.0, "nmi": 1.0, "f1": 1.0}
    )


def test_reports_what_is_asked_for():
    embeddings = np.random.default_rng(0).standard_normal((20, 3))
    plain = evaluate(embeddings, LABELS, ks=[2], clustering=False)
    assert set(plain) == {"recall@2", "mrr", "left_out", "mean_pairwise_distance"}
    full, found = evaluate_in_full(embeddings, LABELS, ks=[2], map_at_r=True, intervals=True)
    assert set(full) - set(plain) == {
        "map@r",
        "r_precision",
        "recall@2_low",
        "recall@2_high",
        "nmi",
        "f1",
        "ami",
    }
    assert full["recall@2"] == plain["recall@2"] == found.recall_at(2)[2]
    assert full["recall@2_low"] <= full["recall@2"] <= full["recall@2_high"]


def test_mean_pairwise_distance_is_that_of_a_loop():
    points = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    loop = [np.linalg.norm(points[i] - points[j]) for i in range(30) for j in range(30) if i != j]
    assert mean_pairwise_distance(points) == pytest.approx(np.mean(loop), rel=1e-6)
    assert mean_pairwise_distance(points[:1]) == 0.0


@pytest.mark.parametrize(("spread", "warned"), [(1e-5, True), (0.1, False)])
def test_warns_of_a_collapsed_embedding(spread, warned):
    embeddings = 7 + spread * np.random.default_rng(0).standard_normal((20, 3))
    with mock.patch("profs_tf.metrics.scores.logging.warning") as warning:
        evaluate(embeddings, LABELS, ks=[1], clustering=False)
    assert warning.called == warned


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ks": [20]}, "`ks` must be <= 19"),
        ({"seed": -1}, "`seed` must be a whole number >= 0, got -1"),
    ],
)
def test_bad_arguments_are_refused_before_the_search(arguments, message):
    with (
        mock.patch.object(retrieval, "evaluate_retrieval") as search,
        pytest.raises(ValueError, match=message),
    ):
        evaluate(np.eye(20), LABELS, **arguments)
    assert not search.called


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, True) for name in ("recall@10", "recall@1_low", "mrr", "nmi", "f1", "ami")),
        *((name, True) for name in ("map@r", "r_precision", "validation_map@r")),
        *((name, False) for name in ("loss", "epoch", "left_out", "mean_pairwise_distance", "learning_rate")),
    ],
)
def test_scores_are_fractions_of_which_higher_is_better(name, expected):
    assert is_score(name) == expected


def test_the_table_is_in_percent():
    table = format_report(
        {"untrained": {"recall@1": 0.5, "left_out": 3}, "best": {"recall@1": 0.75, "nmi": 1.0}}
    )
    assert [line.split() for line in table.splitlines()] == [
        ["recall@1", "nmi"],
        ["untrained", "50.00"],
        ["best", "75.00", "100.00"],
    ]


def test_a_split_with_queries_is_evaluated_against_its_gallery():
    embeddings = np.random.default_rng(0).normal(size=(40, 3)).astype("f")
    labels = np.arange(40) % 8
    is_query = np.arange(40) < 16
    expected = evaluate(
        embeddings[:16],
        labels[:16],
        ks=(1, 2),
        gallery_embeddings=embeddings[16:],
        gallery_labels=labels[16:],
        clustering=False,
    )
    assert (
        evaluate(**query_and_gallery(embeddings, labels, is_query), ks=(1, 2), clustering=False) == expected
    )
    whole = evaluate(**query_and_gallery(embeddings, labels, None), ks=(1, 2), clustering=False)
    assert whole == evaluate(embeddings, labels, ks=(1, 2), clustering=False)
