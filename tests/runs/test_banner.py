import dataclasses
import re

import pytest

from profs_tf.runs.banner import banner
from profs_tf.sampling.plateau.sampler import PlateauBatchSampler


def test_says_what_is_trained_on_what(finished_run):
    first, weights, head, second, third, fourth = banner(finished_run.run).splitlines()
    assert weights == "weights: random (seed 0)"
    assert first.startswith("profs with the margin loss, conv4 on ")
    assert head == "head: linear, started as random; the whole network trains"
    assert "test: 12 images of 4 classes, 2 of which also train and are not unseen" in second
    assert third.startswith("batches of 4: 2 classes x 2 images, M = 12 steps a projection, lambda = 0.001")
    assert fourth.startswith("1 epochs of 2 steps, beginning at step ")
    assert f"{first}\n{weights}\n{head}\n{second}\n" in finished_run.printed


def test_says_that_projections_end_on_a_plateau(finished_run):
    sampler = PlateauBatchSampler(finished_run.run.train_images.labels, 4, 2)
    text = banner(dataclasses.replace(finished_run.run, sampler=sampler))
    assert "images, projections that end on a plateau of the loss, after 120 steps at the latest, " in text


@pytest.mark.parametrize(("epochs", "note"), [(4, ""), (3, r" \(none ends: 3 evaluations, ccp_patience 3\)")])
def test_says_whether_a_projection_of_ccp_can_end(epochs, note, finished_run):
    run = finished_run.run
    config = dataclasses.replace(run.config, method="ccp", loss="margin", epochs=epochs)
    text = banner(dataclasses.replace(run, config=config, projection_images=run.test_images))
    assert re.search(rf"MAP@R on \d+ training classes held out for it{note}, lambda", text)


def test_says_that_the_loss_has_a_memory(finished_run):
    config = dataclasses.replace(finished_run.run.config, xbm_size=8192)
    text = banner(dataclasses.replace(finished_run.run, config=config))
    assert text.startswith(
        "profs with the margin loss, with a cross-batch memory of 8,192 embeddings, conv4 on "
    )


def test_says_what_of_batch_normalization_is_frozen(finished_run):
    config = dataclasses.replace(finished_run.run.config, freeze_batch_norm="statistics")
    lines = banner(dataclasses.replace(finished_run.run, config=config)).splitlines()
    assert lines[2] == "frozen batch normalization: statistics"
