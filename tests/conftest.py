import gc
import os

from hypothesis import settings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Tests share two cores with whatever else runs: hypothesis must not time single examples.
settings.register_profile("default", deadline=None)
settings.load_profile("default")


def pytest_configure(config):
    """Imports TensorFlow at once, but not in the process that only hands tests to pytest's workers."""
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        return
    import tensorflow as tf  # noqa: F401

    # TensorFlow's modules are a million objects that stay: looking through them again and again for garbage
    # takes a tenth of all the time.
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
