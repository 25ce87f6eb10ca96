import numpy as np
import pytest

from profs_tf.sampling.hncm.lagged_memory import LaggedMemory, StepEmbeddings

LAG = 3


def message(step):
    return StepEmbeddings(step, np.array([step % 4]), np.full([1, 2], step, np.float32))


@pytest.mark.parametrize("resume_after", [None, 0, 1, 2, 5, 6])
def test_the_next_batch_is_mined_from_the_steps_up_to_the_lag(resume_after):
    history = LaggedMemory(4, 2, LAG)
    for step in range(8):
        history.add(message(step))
        if step == resume_after:
            arrays = history.arrays()
            history = LaggedMemory(4, 2, LAG)
            history.restore(arrays)
        # Batch step + 1 may use what the steps up to step + 1 - LAG computed.
        newest = step + 1 - LAG
        assert [pending.step for pending in history.pending] == list(range(max(0, newest + 1), step + 1))
        expected = np.zeros([4, 2], np.float32)
        for used in range(newest + 1):
            expected[used % 4] = used
        np.testing.assert_array_equal(history.memory.embeddings, expected)
        assert history.memory.seen.tolist() == [number <= newest for number in range(4)]


def test_history_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"must have shape \(20, 5\), got \(20, 4\)"):
        LaggedMemory(20, 5, LAG).restore(LaggedMemory(20, 4, LAG).arrays())
