from tests.helpers.forked_process import run_forked

SCRIPT = """
import os
import tensorflow as tf
from profs_tf.utils.forks import check_not_forked

def child():
    if os.fork():
        return os.wait()
    try:
        check_not_forked()
        print("works", flush=True)
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)

child()
tf.constant(1) + 1
child()
check_not_forked()
"""


def test_only_a_fork_after_the_first_operation_is_rejected():
    # The server that forks this process has imported TensorFlow and not used it.
    done = run_forked("-c", SCRIPT)
    assert done.returncode == 0, done.stderr
    before, after = done.stdout.splitlines()
    assert before == "works"
    assert after.startswith("This process was forked after its parent had used TensorFlow")
