import json
from types import SimpleNamespace

import pytest

from profs_tf.callbacks.plateau import PlateauSchedule


def scheduled(model):
    schedule = PlateauSchedule("recall@1", 0.5, wait=2)
    schedule.set_model(model)
    return schedule


@pytest.mark.parametrize("stop", [None, 1, 3, 4])
def test_lowers_the_rate_after_evaluations_without_a_better_recall(stop):
    """Also if another callback takes over the state before epoch `stop`."""
    model = SimpleNamespace(optimizer=SimpleNamespace(learning_rate=1.0))
    schedule = scheduled(model)
    recalls = [0.3, 0.4, 0.4, None, 0.3, 0.4, 0.35, 0.5, 0.4]
    rates = []
    for epoch, recall in enumerate(recalls):
        if epoch == stop:
            state = json.loads(json.dumps(schedule.state()))
            schedule = scheduled(model)
            schedule.restore(state)
        schedule.on_epoch_end(epoch, {} if recall is None else {"recall@1": recall})
        rates.append(model.optimizer.learning_rate)
    assert rates == [1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.25]
