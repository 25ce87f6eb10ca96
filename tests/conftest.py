import gc
import os

import pytest
from hypothesis import settings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Tests share two cores with whatever else runs: hypothesis must not time single examples.
settings.register_profile("default", deadline=None)
settings.load_profile("default")
# Each of these folders shares what takes seconds to make, so one of pytest's workers runs all of it.
FOLDERS_OF_ONE_WORKER = ("tests/runs", "tests/search", "tests/serving")


def pytest_configure(config):
    """Imports TensorFlow at once, but not in the process that only hands tests to pytest's workers."""
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        return
    import tensorflow as tf  # noqa: F401

    # TensorFlow's modules are a million objects that stay: looking through them again and again for garbage
    # takes a tenth of all the time.
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Sends each file, or one of those folders, to one worker, so that it makes its fixtures once."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            folder = file.rpartition("/")[0]
            return folder if folder in FOLDERS_OF_ONE_WORKER else file

    return Scheduling(config, log)
