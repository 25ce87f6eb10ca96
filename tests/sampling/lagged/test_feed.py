import threading
import time

import pytest

from profs_tf.sampling.hncm.lagged_memory import StepEmbeddings
from profs_tf.sampling.lagged.feed import StalledTrainingError, StepFeed


def message(step):
    return StepEmbeddings(step, [0], [[0.0]])


def test_messages_arrive_in_order_in_another_thread():
    feed, taken = StepFeed(3), []
    thread = threading.Thread(target=lambda: taken.extend(iter(feed.take, None)))
    thread.start()
    for step in range(3, 9):
        feed.put(message(step))
    while feed.next_step < 9:
        time.sleep(0.01)
    feed.close()
    thread.join(timeout=10)
    assert [one.step for one in taken] == list(range(3, 9))


def test_a_step_without_a_message_times_out():
    with pytest.raises(StalledTrainingError, match="Nothing of step 7 arrived within 0 s"):
        StepFeed(7, stall_seconds=0.1).take()


def test_an_evaluation_between_steps_is_no_stall():
    feed = StepFeed(0, stall_seconds=0.1)
    feed.is_stepping = False
    timer = threading.Timer(1.5, lambda: feed.put(StepEmbeddings(0, [0], [[0.0]])))
    timer.start()
    assert feed.take().step == 0
    timer.join()


def test_messages_out_of_order_are_refused():
    feed = StepFeed(4)
    with pytest.raises(ValueError, match="`message` must be of step 4, got step 5"):
        feed.put(StepEmbeddings(5, [], []))
