import os
import threading

import pytest

from profs_tf.utils.threads import in_threads, num_threads


@pytest.mark.parametrize(("cores", "threads"), [(1, 2), (2, 2), (5, 5), (64, 8)])
def test_number_of_threads(cores, threads, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    assert num_threads() == threads


def test_results_come_in_order_from_several_threads():
    both = threading.Barrier(2, timeout=30)

    def work(item):
        if item < 2:
            both.wait()  # ends only if two threads are here
        return item, threading.get_ident()

    found = list(in_threads(work, range(50)))
    assert [item for item, _ in found] == list(range(50))
    assert found[0][1] != found[1][1]
    assert threading.get_ident() not in {thread for _, thread in found}


def test_few_results_wait():
    taken = []

    def items():
        for item in range(1000):
            taken.append(item)
            yield item

    results = in_threads(lambda item: item, items())
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    assert len(taken) <= 3 + 2 * num_threads() + 1
    results.close()


def test_an_error_of_the_work_reaches_the_caller():
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda item: 1 // item, [1, 0, 1]))
