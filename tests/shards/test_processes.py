import pickle
import queue
import types

import pytest

from profs_tf.inputs.decoding import UnreadableImageError
from profs_tf.shards import processes


def test_a_killed_process_is_reported_and_not_waited_for(monkeypatch):
    monkeypatch.setattr(processes, "_CHECK_SECONDS", 0.01)
    workers = [types.SimpleNamespace(pid=number, exitcode=code) for number, code in ((3, None), (4, -9))]
    messages = queue.Queue()
    messages.put(17)
    assert processes._next_message(messages, workers) == 17
    with pytest.raises(ChildProcessError, match=r"process 4 ended with code -9, .* to continue, with fewer"):
        processes._next_message(messages, workers)


def test_the_error_of_an_unreadable_picture_passes_between_processes():
    error = UnreadableImageError("a.png: it is empty")
    passed = pickle.loads(pickle.dumps(error))
    assert (str(passed), passed.summary) == (str(error), error.summary)
