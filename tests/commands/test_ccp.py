"""CCP by the command line: a head on features, killed and resumed; what does not go with it."""

import io
import json

import numpy as np
import pytest
import tensorflow as tf

from tests.commands.run_commands import run_command
from tests.commands.run_state import assert_same_run, final_state, log_rows, start, wait_for_checkpoint

EPOCHS, STEPS_PER_EPOCH = 8, 10
CCP = (
    "--method=ccp",
    "--loss=contrastive",
    "--ccp_prototypes=2",
    "--ccp_pool_size=4",
    "--ccp_patience=1",
    "--ccp_validation_classes=0.34",
    "--ccp_proximal_weight=0.1",
    "--ccp_start=best",
)


@pytest.fixture(scope="module")
def arguments(pictures):
    return (
        f"--dataset=folder:{pictures}",
        "--backbone=conv4",
        "--image_resize=24",
        "--embedding_dim=8",
        "--train_layers=head",
        "--batch_size=8",
        *CCP,
        "--learning_rate=1e-2",
        "--ks=1,2",
        f"--steps_per_epoch={STEPS_PER_EPOCH}",
        f"--epochs={EPOCHS}",
        "--clustering=never",
        "--tensorboard=none",
        "--export=false",
        "--progress=none",
    )


def callback_arrays(folder):
    """The arrays that the last checkpoint holds of the callback: the best weights and prototypes so far."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(folder / "checkpoints"))
    content = np.load(io.BytesIO(reader.get_tensor("memory/.ATTRIBUTES/py_state")))
    arrays = {name: content[name] for name in content.files if name.startswith("projections/")}
    return arrays, json.loads(str(content["plain"]))["projections"]


def test_killed_and_resumed_equals_never_killed(arguments, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    printed = run_command("train", *arguments, f"--output_dir={whole}").stdout
    assert "projections that end on a plateau of MAP@R on 2 training classes held out for it" in printed
    rows = log_rows(whole)
    assert int(float(rows[-1]["projection_index"])) >= 2
    assert float(rows[-1]["proximal_penalty"]) > 0.0
    assert float(rows[1]["proximal_penalty"]) == 0.0

    process = start((*arguments, "--checkpoint_every_steps=5"), killed)
    try:
        wait_for_checkpoint(killed, process, EPOCHS * STEPS_PER_EPOCH // 2)
    finally:
        process.kill()
        process.communicate()
    assert len(log_rows(killed)) <= EPOCHS, "it was over before it was killed"
    run_command("train", f"--output_dir={killed}", "--resume", "--progress=none")
    assert_same_run(whole, killed)
    (name,) = (
        name for name in final_state(killed) if name.endswith("loss/prototypes/.ATTRIBUTES/VARIABLE_VALUE")
    )
    assert final_state(killed)[name].shape == (4, 2, 8)
    (one, plain), (other, other_plain) = callback_arrays(whole), callback_arrays(killed)
    assert plain == other_plain
    assert one.keys() == other.keys()
    assert {one[key].shape for key in one} == {(4, 2, 8), (64, 8), (8,)}
    for key, value in one.items():
        np.testing.assert_array_equal(value, other[key], err_msg=key)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "tolerance"),
    [(("--distribute=mirrored", "--cpu_replicas=2"), 1e-4), (("--precision=mixed_bfloat16",), 0.05)],
    ids=["replicas", "bfloat16"],
)
def test_replicas_and_mixed_precision_train_alike(flags, tolerance, arguments, tmp_path):
    """The whole network, in the first projection: a score ends it, which rounding may change."""
    whole = [word for word in arguments if not word.startswith(("--train_layers", "--epochs"))]
    losses = []
    for name, more in (("plain", ()), ("other", flags)):
        folder = tmp_path / name
        more = (*more, "--epochs=1", "--freeze_batch_norm=statistics")
        run_command("train", *whole, *more, f"--output_dir={folder}")
        losses.append(float(log_rows(folder)[-1]["loss"]))
    assert losses[0] == pytest.approx(losses[1], rel=tolerance)
