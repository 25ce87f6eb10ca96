import gc
import os

import pytest
from hypothesis import settings

from tests.helpers.forked_process import ForkServer

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Waiting for work, a thread of OpenMP or OpenBLAS takes a core that another worker needs.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tests share two cores with whatever else runs: hypothesis must not time single examples.
settings.register_profile("default", deadline=None)
settings.load_profile("default")
# Each of these folders shares what takes seconds to make, so one of pytest's workers runs all of it.
FOLDERS_OF_ONE_WORKER = ("tests/runs", "tests/search", "tests/serving")
# What takes longest comes first, so that the workers end together; the first makes a run that others share.
LONGEST_FIRST = (
    "tests/commands/test_train.py",
    "tests/commands/test_head.py",
    "tests/runs",
    "tests/serving",
    "tests/test_keras_contract.py",
    "tests/backbones/test_backbones.py",
    "tests/tools/test_run_grid.py",
    "tests/tools/test_run_grid_stopped.py",
    "tests/distribution/test_collectives.py",
    "tests/commands/test_nasty_pictures.py",
    "tests/commands/test_queries_and_gallery.py",
    "tests/commands/test_evaluate.py",
    "tests/commands/test_gallery.py",
    "tests/commands/test_retrieve.py",
    "tests/callbacks/test_recall.py",
    "tests/callbacks/test_class_mining.py",
    "tests/callbacks/test_class_mining_prototypes.py",
    "tests/models/test_fit_guard.py",
    "tests/metrics/test_retrieval.py",
    "tests/test_docs.py",
    "tests/test_extending.py",
    "tests/test_notebook.py",
    "tests/test_package.py",
    "tests/backbones/test_inception_v1.py",
    "tests/backbones/test_inception_v2.py",
    "tests/losses/test_loss_in_keras.py",
    "tests/losses/test_loss_compilation.py",
)


def part_of_one_worker(nodeid):
    """Returns the file of a test, or its folder if that is one of those."""
    file = nodeid.partition("::")[0]
    folder = file.rpartition("/")[0]
    return folder if folder in FOLDERS_OF_ONE_WORKER else file


def pytest_configure(config):
    """Starts the fork server; imports TensorFlow at once, but not where tests are only handed to workers."""
    if not hasattr(config, "workerinput"):
        server = ForkServer()
        config.add_cleanup(server.stop)
        if config.getoption("dist", "no") != "no":
            return
    import tensorflow as tf  # noqa: F401

    # TensorFlow's modules are a million objects that stay: looking through them again and again for garbage
    # takes a tenth of all the time.
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def few_emoji():
    """Both splits of the emoji with 60 images each."""
    import profs_tf as profs

    return tuple(part.take(range(60)) for part in profs.datasets.load("emoji"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    if hasattr(config, "workerinput"):
        places = {part: place for place, part in enumerate(LONGEST_FIRST)}
        items.sort(key=lambda item: places.get(part_of_one_worker(item.nodeid), len(places)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Sends each file, or one of those folders, to one worker, so that it makes its fixtures once."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return part_of_one_worker(nodeid)

    # By the number of their tests; the workers have sorted them by time.
    config.option.loadscopereorder = False
    return Scheduling(config, log)
