import gc
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf  # noqa: F401

# Tests share two cores with whatever else runs: hypothesis must not time single examples.
from hypothesis import settings

settings.register_profile("default", deadline=None)
settings.load_profile("default")
# TensorFlow's modules are a million objects that stay: looking through them again and again for garbage takes
# a tenth of all the time.
gc.freeze()
gc.set_threshold(20_000, 20, 20)
