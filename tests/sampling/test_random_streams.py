import numpy as np

from profs_tf.sampling import random_streams


def test_a_draw_depends_on_seed_purpose_and_index_only():
    def draw(*key):
        return tuple(random_streams.generator(*key).random(4))

    draws = {
        draw(seed, purpose, index) for seed in (0, 2**62) for purpose in (1, 2) for index in (0, 1, 2**62)
    }
    assert len(draws) == 12
    assert draw(2**62, 2, 1) in draws


def test_hashed_bits_are_uniform_and_differ_by_each_input():
    first, second = (values.ravel() for values in np.meshgrid(np.arange(200), np.arange(200)))
    bits = random_streams.hashed_uniform_bits(3, 1, first, second)
    assert bits.dtype == np.uint64
    assert len(np.unique(bits)) == 40_000
    assert (bits != random_streams.hashed_uniform_bits(4, 1, first, second)).all()
    assert (bits != random_streams.hashed_uniform_bits(3, 2, first, second)).all()
    # Each bit of 40,000 is set about as often as not; 0.015 is six standard deviations.
    share = [((bits >> np.uint64(bit)) & np.uint64(1)).mean() for bit in range(64)]
    np.testing.assert_allclose(share, 0.5, atol=0.015)


def test_each_purpose_has_a_stream_of_its_own():
    purposes = [value for name, value in vars(random_streams).items() if name.isupper()]
    assert len(purposes) == len(set(purposes)) >= 6
