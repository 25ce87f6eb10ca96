import dataclasses

import numpy as np
import pytest
import yaml

from profs_tf.config import Config
from profs_tf.datasets.image_list import ImageList
from profs_tf.export import loss_options_of
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.serving.model_card import Trained, model_card

CONFIG = Config(
    dataset="folder:/data/birds",
    loss="margin",
    loss_options={"boundary": 1.1},
    backbone="resnet50",
    pretrained="imagenet",
    embedding_dim=64,
    seed=5,
)
TRAINED = Trained(
    train_images=ImageList.from_labels(np.zeros([1200, 2, 2, 3], np.uint8), np.arange(1200) // 2),
    test_images=ImageList.from_labels(np.zeros([9, 2, 2, 3], np.uint8), 600 + np.arange(9) // 3),
    steps_per_projection=57,
    loss_options={"margin": 0.2, "boundary": 1.1},
    normalized=True,
    num_weights=23534592,
    metrics={
        "untrained": {"recall@1": 0.25, "recall@2": 0.375, "mean_pairwise_distance": 0.1},
        "best": {"epoch": 7, "recall@1": 0.5, "recall@2": 0.625, "nmi": 0.8, "evaluation_seconds": 3.0},
    },
    origin="random (seed 5)",
)
PREPROCESSING = Preprocessing(256, 224)
DIFFERENCES = {"saved_model": 2.5e-7, "tflite": 3e-6, "tflite_float16": 2e-3, "onnx": 4e-6}


def card(config=CONFIG, preprocessing=PREPROCESSING, differences=DIFFERENCES, **changes):
    return model_card(config, preprocessing, differences, TRAINED._replace(**changes))


@pytest.mark.parametrize(
    "line",
    [
        "| data | folder:birds |",
        "| training split | 1,200 images of 600 classes |",
        "| test split | 9 images of 3 classes, none of which trained |",
        "| method | PROFS, alternating projections onto feasible sets (Can, Gürbüz, Alatan) |",
        "| loss | margin (margin = 0.2, boundary = 1.1) |",
        "| steps a projection (M) | 57 |",
        "| proximal weight (lambda) | 0.001 |",
        "| seed | 5 |",
        "| backbone | resnet50, 23,534,592 weights with the head |",
        "| initial weights | random (seed 5) |",
        "## Figures on the test split, in percent",
        "|  | recall@1 | recall@2 | nmi |",
        "| before training | 25.00 | 37.50 |  |",
        "| this embedder, epoch 7 | 50.00 | 62.50 | 80.00 |",
        "| channels | RGB, in this order |",
        "| resize | scaled to 256 x 256 pixels whatever the aspect ratio, bilinearly with antialiasing |",
        "| crop | the central 224 x 224 pixels |",
        "| dimension | 64, float32 |",
        "| length | 1 (normalized) |",
        "| distance | Euclidean, or cosine similarity, which ranks the same |",
        "| saved_model | the folder itself | 2.5e-07 | 0.001 |",
        "| tflite_float16 | embedder_float16.tflite | 2.0e-03 | 0.01 |",
        "| onnx | embedder.onnx | 4.0e-06 | 0.001 |",
    ],
)
def test_says(line):
    assert line in card().splitlines()


def test_changes_without_normalization_scaling_evaluation_and_method():
    config = dataclasses.replace(CONFIG, method="baseline", validation_classes=0.2, xbm_size=50)
    text = card(config, Preprocessing(0, 48), {"saved_model": 0.0}, normalized=False, metrics={})
    assert "| length | any (not normalized) |" in text
    assert "| distance | Euclidean; cosine similarity ranks differently |" in text
    assert "| resize | not scaled |" in text
    padded = card(config, Preprocessing(256, 224, aspect="pad"))
    assert "| resize | with a gray border (127) to a square, scaled to 256 x 256 pixels, bilinearly" in padded
    assert "Nothing was evaluated." in text
    assert "boundary = 1.1), with a cross-batch memory of 50 embeddings |" in text
    assert "| method | ordinary batches, no penalty |" in text
    assert "| proximal weight (lambda) | 0 |" in text
    assert "| validation split | 9 images" in text
    assert "onnx" not in text
    assert "tflite" not in text


def test_says_that_bounding_boxes_were_cut_out():
    boxes = np.tile(np.array([0, 0, 1, 1], np.float32), (9, 1))
    boxed = dataclasses.replace(TRAINED.test_images, boxes=boxes)
    assert "saw the data's bounding boxes, cut out first" in card(test_images=boxed)
    assert "bounding boxes" not in card()


def test_opens_with_the_metrics_that_the_hub_reads():
    found = yaml.safe_load(card().split("---\n")[1])
    (result,) = found["model-index"][0]["results"]
    assert {one["name"]: one["value"] for one in result["metrics"]} == {
        "recall@1": 0.5,
        "recall@2": 0.625,
        "nmi": 0.8,
    }


def test_loads_in_three_lines_a_format():
    blocks = card().split("```python\n")[1:]
    assert len(blocks) == len(DIFFERENCES)
    for block in blocks:
        code = block.split("```")[0]
        assert len(code.splitlines()) == 3
        compile(code, "card", "exec")
    assert 'tf.lite.Interpreter("FOLDER/embedder_float16.tflite")' in blocks[2]


def test_options_of_the_loss_are_those_given_and_the_defaults():
    options = loss_options_of(CONFIG)
    assert options["boundary"] == 1.1
    assert options["margin"] == 0.2
    assert "seed" not in loss_options_of(dataclasses.replace(CONFIG, loss="contrastive", loss_options={}))


def test_test_classes_that_also_trained_are_counted():
    shared = TRAINED._replace(test_images=TRAINED.train_images)
    text = model_card(CONFIG, PREPROCESSING, DIFFERENCES, shared)
    assert "| test split | 1,200 images of 600 classes, 600 of which trained |" in text
