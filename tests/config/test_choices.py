"""Choices that stand twice, since the configuration must not import the modules that need TensorFlow."""

import dataclasses

import pytest

from profs_tf.callbacks import ccp
from profs_tf.config import Config
from profs_tf.inputs import cache, preprocessing
from profs_tf.models import embedder, head
from profs_tf.visual import tensorboard


@pytest.mark.parametrize(
    ("option", "choices"),
    [
        ("augmentation", preprocessing.AUGMENTATIONS),
        ("cache", cache.CACHES),
        ("ccp_start", ccp.STARTS),
        ("freeze_batch_norm", embedder.FREEZE_BATCH_NORM),
        ("head", head.HEADS),
        ("image_aspect", preprocessing.ASPECTS),
        ("tensorboard", tensorboard.DETAILS),
    ],
)
def test_options_have_the_choices_of_the_modules_that_take_them(option, choices):
    (field,) = (field for field in dataclasses.fields(Config) if field.name == option)
    assert field.metadata["choices"] == choices
