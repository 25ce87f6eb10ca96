"""No loss may need memory that is cubic in the batch."""

import json
from pathlib import Path

import pytest

from tests.helpers.forked_process import run_forked

SCRIPT = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
import numpy as np, tensorflow as tf
from tests.losses.loss_cases import BUILDERS, build, unit_rows, value_and_gradients

B = D = 384
E = unit_rows(np.random.default_rng(0), B, D)
y = np.arange(B) // int(sys.argv[2])
mode = sys.argv[3]
tf.matmul(E, E, transpose_b=True)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
before, grown = peak(), {}
for name in sys.argv[4:] or BUILDERS:
    loss = build(name, B, D).loss
    step = lambda E: value_and_gradients(loss, y, E)
    if mode != "eager":
        step = tf.function(step, autograph=False, jit_compile=mode == "xla")
    step(tf.constant(E))
    grown[name] = peak() - before
print(json.dumps(grown))
"""
# Those that look at three images at once, and so might keep a cube.
OF_TRIPLES = ["angular", "triplet_semi_hard", "margin_distance_weighted"]


@pytest.mark.parametrize(
    ("images_per_class", "mode", "names"),
    [
        (2, "eager", []),
        pytest.param(384, "eager", [], marks=pytest.mark.slow),
        (2, "graph", OF_TRIPLES),
        pytest.param(2, "xla", OF_TRIPLES, marks=pytest.mark.slow),
        pytest.param(192, "eager", OF_TRIPLES, marks=pytest.mark.slow),
    ],
)
def test_less_than_one_cube_for_384_images(images_per_class, mode, names):
    """Value and gradient of B = D = 384: the peak of one process over all losses, above its start.

    One float32 [B, B, B] object is 216 MB, more than a loss may take.
    """
    arguments = [str(Path(__file__).parents[2]), str(images_per_class), mode, *names]
    result = run_forked("-c", SCRIPT, *arguments)
    assert result.returncode == 0, result.stderr
    megabytes = json.loads(result.stdout)
    assert max(megabytes.values()) < 210, megabytes
