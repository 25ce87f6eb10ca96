import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Tests share two cores with whatever else runs: hypothesis must not time single examples.
from hypothesis import settings

settings.register_profile("default", deadline=None)
settings.load_profile("default")
