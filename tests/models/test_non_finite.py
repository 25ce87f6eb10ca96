import pytest

from profs_tf.models.non_finite import TERMS, NonFiniteLossError


@pytest.mark.parametrize("term", TERMS)
def test_the_message_names_the_term_the_step_and_the_options_of_the_loss(term):
    plain, suspecting = NonFiniteLossError(term, 3), NonFiniteLossError(term, 3, ["temperature=1e-30"])
    assert (plain.term, plain.step) == (term, 3)
    start = f"The {term.replace('_', ' ')} "
    assert str(plain).startswith(start)
    assert " not finite since step 3. Training stopped; " in str(plain)
    assert "Lower the learning rate, or look at the batches" in str(plain)
    assert "Lower the learning rate, change `temperature=1e-30`, or look at the batches" in str(suspecting)
