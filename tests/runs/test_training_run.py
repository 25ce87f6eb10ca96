import dataclasses

from profs_tf.callbacks.ccp import CcpCallback
from profs_tf.callbacks.profs import ProfsCallback
from profs_tf.runs.checkpoint import RunCheckpoint


def test_the_checkpoint_is_the_last_callback(finished_run):
    callbacks = finished_run.callbacks.in_order("none")
    assert isinstance(callbacks[0], ProfsCallback)
    assert isinstance(callbacks[-1], RunCheckpoint)
    *_, bar, last = finished_run.callbacks.in_order("tqdm")
    # TensorFlow Addons' bar, or the package's own without it.
    assert type(bar).__name__ in ("TQDMProgressBar", "EpochBar")
    assert isinstance(last, RunCheckpoint)


def test_ccp_may_return_to_earlier_weights_once_an_epoch_is_evaluated(finished_run):
    ccp = object.__new__(CcpCallback)
    callbacks = dataclasses.replace(finished_run.callbacks, projections=ccp)
    assert callbacks.in_order("none")[:2] == [callbacks.recall, ccp]


def test_a_run_in_a_thread_is_the_chief_and_takes_its_steps(finished_run):
    assert finished_run.run.is_chief
    assert finished_run.run.model.steps_taken == 2
    assert finished_run.run.num_shared_classes == 2
