"""The measurement of waiting, on data sets and steps whose times are known."""

import sys
import time
from pathlib import Path

import tensorflow as tf

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import benchmark_input as tool


def delayed(seconds):
    """A data set whose elements take so long, one after the other."""

    def elements():
        while True:
            time.sleep(seconds)
            yield (0.0,)

    options = tf.data.Options()
    # Nothing is produced ahead while a busy machine holds the reader up.
    options.experimental_optimization.inject_prefetch = False
    dataset = tf.data.Dataset.from_generator(elements, output_signature=(tf.TensorSpec([]),))
    return dataset.with_options(options)


def step_of(seconds):
    def step(element):
        time.sleep(seconds)
        return element

    return step


def test_a_step_that_does_nothing_only_waits():
    waited, total = tool.waiting(delayed(0.1), step_of(0.0), count=4, warm_up=2)
    assert waited >= 4 * 0.1
    assert waited / total > 0.8


def test_what_comes_ahead_is_not_waited_for():
    waited, total = tool.waiting(delayed(0.01).prefetch(2), step_of(0.3), count=4, warm_up=2)
    assert total >= 4 * 0.3
    assert waited / total < 0.2


def test_warming_up_does_not_count():
    slow_begin = delayed(0.4).take(2).concatenate(delayed(0.0))
    waited, _ = tool.waiting(slow_begin, step_of(0.01), count=4, warm_up=2)
    assert waited < 0.4


def test_one_thread_gives_the_same_elements():
    numbers = tf.data.Dataset.range(20).map(lambda number: number * 2, num_parallel_calls=tf.data.AUTOTUNE)
    changed = tool.with_one_thread(numbers)
    assert changed.options().threading.private_threadpool_size == 1
    assert list(changed.as_numpy_iterator()) == list(range(0, 40, 2))
