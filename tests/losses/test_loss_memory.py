"""No loss may need memory that is cubic in the batch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
import numpy as np, tensorflow as tf
from loss_cases import BUILDERS, build, unit_rows, value_and_gradients

B = D = 512
E = unit_rows(np.random.default_rng(0), B, D)
y = np.arange(B) // int(sys.argv[2])
tf.matmul(E, E, transpose_b=True)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
before, grown = peak(), {}
for name in BUILDERS:
    loss = build(name, B, D).loss
    value_and_gradients(loss, y, E)
    if sys.argv[3] == "graph":
        tf.function(lambda E: value_and_gradients(loss, y, E), autograph=False)(tf.constant(E))
    grown[name] = peak() - before
print(json.dumps(grown))
"""


@pytest.mark.parametrize("images_per_class", [2, 16, 512])
def test_under_one_gigabyte_for_512_images(images_per_class):
    """Value and gradient of B = D = 512; the peak of one process over all losses, in MB above its start."""
    command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parent), str(images_per_class)]
    mode = "graph" if images_per_class == 2 else "eager"
    result = subprocess.run([*command, mode], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    grown = json.loads(result.stdout)
    assert max(grown.values()) < 1000, grown
