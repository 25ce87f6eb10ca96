import numpy as np
import pytest

from profs_tf.sampling.plateau.projections import (
    LaggedLosses,
    PlateauProjections,
    PlateauRule,
    StepLoss,
)
from tests.sampling.plateau.replay import starts_by_replay


def starts_of(losses, rule, lag, resume_at=()):
    """The first steps of all projections, as the trainer learns them from step to step."""
    history, starts = LaggedLosses(rule, lag), [0]
    for step, loss in enumerate(losses[:-1]):
        history.add(StepLoss(step, np.float32(loss)))
        if step in resume_at:
            arrays = {name: np.array(value) for name, value in history.arrays().items()}
            history = LaggedLosses(rule, lag)
            history.restore(arrays)
        if history.memory.start == step + 1:
            starts.append(step + 1)
            assert history.memory.index_of(step) == len(starts) - 2
        assert history.memory.index_of(step + 1) == len(starts) - 1
    return starts


@pytest.mark.parametrize(("lag", "second"), [(1, 8), (3, 10)])
def test_the_worked_example_holds(lag, second):
    losses = [5, 3, 2, 2, 3, 1, 3, 2, 9, 8, 9, 8]
    assert starts_of(losses, PlateauRule(2, 2, 50), lag) == [0, second]


@pytest.mark.parametrize("stretch", [1, 3])
@pytest.mark.parametrize("patience", [1, 2])
@pytest.mark.parametrize("lag", [1, 4, 9])
def test_projections_end_where_a_replay_of_the_losses_ends_them(stretch, patience, lag):
    random = np.random.default_rng([stretch, patience, lag])
    losses = random.random(300).astype(np.float32).tolist()
    expected = starts_by_replay(losses, stretch, patience, 25, lag)
    assert len(set(np.diff(expected))) > 1
    assert starts_of(losses, PlateauRule(stretch, patience, 25), lag) == expected
    # Restored after any step, also between the plateau and the step that it is known to.
    assert starts_of(losses, PlateauRule(stretch, patience, 25), lag, range(300)) == expected


def test_a_loss_that_falls_ends_no_projection_before_the_longest():
    assert starts_of(-np.arange(100.0), PlateauRule(2, 2, 40), 4) == [0, 40, 80]


def test_a_copy_is_independent():
    one = PlateauProjections(PlateauRule(1, 1, 3), 1)
    other = one.copy()
    one.enter(3)
    assert (one.index, other.index) == (1, 0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0, 2, 9), "`stretch` must be a whole number >= 1, got 0"),
        ((2, 1.5, 9), "`patience` must be a whole number >= 1, got 1.5"),
        ((2, 2, 6), "`longest` must be above 6 steps, 3 stretches of 2, got 6"),
    ],
)
def test_rules_that_no_plateau_could_meet_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        PlateauRule(*values)
