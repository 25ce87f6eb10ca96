import json

import pytest

from profs_tf.callbacks.overfitting import OverfittingWatch

FALLING = [1.0 - 0.01 * epoch for epoch in range(20)]


def news_at(recalls, losses, watch=None):
    """Returns the evaluations, counted from 1, with news. The untrained network has a recall of 0.5."""
    watch = watch or OverfittingWatch()
    best, news = 0.5, []
    for number, (recall, loss) in enumerate(zip(recalls, losses), start=1):
        is_best = recall > best
        best = max(best, recall)
        if watch.is_news(recall, best, loss, is_best):
            news.append(number)
    return news


@pytest.mark.parametrize(
    ("recalls", "losses", "expected"),
    [
        # Better than untrained at 2, then down: five evaluations from 3 on. Told once.
        ([0.5, 0.6, *[0.55] * 15], FALLING, [7]),
        # Never better than untrained: the loss of the first epoch is the reference.
        ([0.4] * 10, FALLING, [6]),
        # Within the noise of the best.
        ([0.6, *[0.595] * 15], FALLING, []),
        # The training loss rises as well: that is no overfitting.
        ([0.6, *[0.5] * 15], FALLING[::-1], []),
        # Down for four evaluations, and back.
        ([0.6, *[0.5] * 4, 0.595, *[0.5] * 4], FALLING, []),
    ],
)
def test_tells_once_after_five_evaluations_below_the_best(recalls, losses, expected):
    assert news_at(recalls, losses) == expected


def test_state_goes_on_where_it_was():
    recalls, losses = [0.5, 0.6, *[0.55] * 15], FALLING
    watch = OverfittingWatch()
    assert news_at(recalls[:4], losses[:4], watch) == []
    other = OverfittingWatch()
    other.restore(json.loads(json.dumps(watch.state())))
    assert [other.is_news(0.55, 0.6, loss, False) for loss in losses[4:10]] == [
        False,
        False,
        True,
        False,
        False,
        False,
    ]
