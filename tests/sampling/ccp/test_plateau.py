import pytest

from profs_tf.sampling.ccp.plateau import ScorePlateau


def test_the_example_of_the_module():
    plateau = ScorePlateau(2)
    found = []
    for score in (0.5, 0.6, 0.6, 0.58, 0.57, 0.61):
        found.append((plateau.take(score), plateau.has_ended))
        if plateau.has_ended:
            plateau.begin()
    assert [best for best, _ in found] == [True, True, False, False, True, True]
    assert [ended for _, ended in found] == [False, False, False, True, False, False]


def test_a_rise_by_rounding_is_none_and_a_better_score_starts_the_count_anew():
    plateau = ScorePlateau(2)
    assert [plateau.take(score) for score in (0.5, 0.500005, 0.6, 0.5)] == [True, False, True, False]
    assert not plateau.has_ended
    other = ScorePlateau(2)
    other.restore(plateau.state())
    assert not other.take(0.6)
    assert other.has_ended


@pytest.mark.parametrize("patience", [0, 1.5])
def test_patience_is_a_whole_number(patience):
    with pytest.raises(ValueError, match="`patience` must be"):
        ScorePlateau(patience)
