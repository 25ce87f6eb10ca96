"""Combinations of options that contradict each other."""

import pytest

from profs_tf.config import Config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"head": "mlp", "head_init": "pca"},
            r"`head_init` must be random with `head` mlp, got pca: .*Leave it out\.",
        ),
        (
            {"initial_run": "run", "head_init": "random"},
            r"`head_init` must be left out with `initial_run`, got random",
        ),
        ({"train_layers": "heads"}, r"`train_layers` must be all, head, or last:N .* N >= 1, got 'heads'\."),
        ({"train_layers": "last:-1"}, r"`train_layers` must be all, head, or last:N .* got 'last:-1'\."),
        (
            {"train_layers": "head", "image_shift": 4},
            r"`image_shift` must be left out with `train_layers` head, got 4: features are of images",
        ),
        (
            {"train_layers": "head", "distribute": "mirrored"},
            r"`distribute` must be left out with `train_layers` head, got mirrored: a head trains in seconds",
        ),
        (
            {"train_layers": "head", "warmup_epochs": 2},
            "`warmup_epochs` must be left out with `train_layers` head, got 2: nothing but the head trains",
        ),
        (
            {"train_layers": "head", "sync_batch_norm": True},
            "`sync_batch_norm` must be left out with `train_layers` head, got True",
        ),
        (
            {"train_layers": "head", "initial_run": "run"},
            r"`initial_run` must be left out with `train_layers` head, got run: .*last:N layers\.",
        ),
        (
            {"projection_end": "plateau", "method": "profs_hncm"},
            r"`method` must not be profs_hncm with `projection_end` plateau: its batches wait for embeddings",
        ),
        (
            {"projection_end": "plateau", "steps_per_execution": 5},
            r"`steps_per_execution` must not be 5 with `projection_end` plateau: every step's loss is needed",
        ),
        (
            {"projection_end": "plateau", "first_projection_pull": False},
            r"`first_projection_pull` must not be False with `projection_end` plateau: .* not known",
        ),
        ({"xbm_weight": 0.5}, r"`xbm_weight` must be left out unless `xbm_size` is > 0, got 0\.5\."),
        (
            {"projection_patience": 3},
            "`projection_patience` must be left out unless `projection_end` is plateau, got 3 with steps",
        ),
        (
            {"ccp_patience": 2},
            "`ccp_patience` must be left out unless `method` is ccp, got 2 with profs",
        ),
        (
            {"method": "ccp", "ccp_pool_size": 4},
            "`ccp_pool_size` must be >= `ccp_prototypes` = 8, got 4",
        ),
        (
            {"method": "ccp", "ccp_validation_classes": 1.0},
            "`ccp_validation_classes` must be below 1, got 1.0",
        ),
        (
            {"method": "ccp", "projection_end": "plateau"},
            "`projection_end` must be left out with `method` ccp, got plateau: its projections end on",
        ),
        (
            {"method": "ccp", "steps_per_execution": 2},
            "`steps_per_execution` must be 1 with `method` ccp, got 2",
        ),
        (
            {"method": "ccp", "xbm_size": 2},
            "`xbm_size` must be 0 with `method` ccp, got 2: its images are compared with prototypes",
        ),
    ],
)
def test_contradictions_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        Config(**values)


def test_what_changes_nothing_goes_with_features():
    assert Config(train_layers="head", image_shift=0, distribute="none").train_layers == "head"
