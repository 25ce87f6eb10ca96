"""Which images a configuration trains and evaluates on, their sizes, and what it requires of the batches."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from profs_tf import datasets
from profs_tf.config import Config
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.runs.factory import (
    build_best_embedder,
    build_embedder_for,
    build_preprocessing,
    build_sampler,
    hold_out_for_projections,
    load_data,
    proximal_weight_of,
    sampling_rules,
)
from profs_tf.runs.loss import build_loss, check_memory_is_used
from profs_tf.sampling.plateau.projections import PlateauRule
from profs_tf.sampling.plateau.sampler import PlateauBatchSampler


@pytest.fixture(scope="module")
def own_pictures(tmp_path_factory):
    """The same eight classes as a folder and as a CSV file."""
    root = tmp_path_factory.mktemp("pictures")
    lines = ["path,label"]
    for number in range(8):
        (root / f"c{number}").mkdir()
        for copy in range(2):
            Image.new("RGB", (8, 8), (number * 30, copy * 90, 0)).save(root / f"c{number}" / f"{copy}.png")
            lines.append(f"c{number}/{copy}.png,c{number}")
    table = root / "list.csv"
    table.write_text("\n".join(lines) + "\n", "utf-8")
    return root, table


def data_sets(own_pictures):
    root, table = own_pictures
    return {"emoji": "emoji", "folder": f"folder:{root}", "csv": f"csv:{table}"}


@pytest.mark.parametrize("kind", ["emoji", "folder", "csv"])
def test_validation_classes_are_training_classes_that_do_not_train(own_pictures, kind):
    name = data_sets(own_pictures)[kind]
    whole_train, test = datasets.load(name)
    train, validation = load_data(Config(dataset=name, validation_classes=0.5))
    assert set(train.class_names) | set(validation.class_names) == set(whole_train.class_names)
    assert not set(train.class_names) & set(validation.class_names)
    assert not set(test.class_names) & (set(train.class_names) | set(validation.class_names))
    assert len(train) + len(validation) == len(whole_train)
    assert validation.num_classes == int(0.5 * whole_train.num_classes)


def test_ccp_holds_classes_out_of_those_that_train():
    config = Config(dataset="emoji", validation_classes=0.5, method="ccp", ccp_validation_classes=0.3)
    known, validation = load_data(config)
    train, held_out = hold_out_for_projections(config, known)
    assert set(train.class_names) | set(held_out.class_names) == set(known.class_names)
    assert not set(train.class_names) & set(held_out.class_names)
    assert not set(held_out.class_names) & set(validation.class_names)
    assert held_out.num_classes == int(0.3 * known.num_classes)
    assert hold_out_for_projections(Config(), known) == (known, None)
    with pytest.raises(ValueError, match="`ccp_validation_classes` needs at least 4 classes to split, got 3"):
        hold_out_for_projections(config, known.subset_of_classes([0, 1, 2]))
    both = Config(dataset="emoji", validation_classes=0.99, method="ccp")
    few = known.subset_of_classes(range(6))
    message = (
        "`ccp_validation_classes` must leave at least 2 .*, got 5 and 1. It splits the 6 classes that "
        "`validation_classes=0.99` leaves to train: change one of the two."
    )
    with pytest.raises(ValueError, match=message):
        hold_out_for_projections(both, few)
    with pytest.raises(ValueError, match="got 5 and 1.$"):
        hold_out_for_projections(dataclasses.replace(both, validation_classes=None), few)
    single = known.take([int(np.argmax(known.labels == label)) for label in range(12)])
    with pytest.raises(ValueError, match="`ccp_validation_classes` must hold out a class with two images"):
        hold_out_for_projections(config, single)


def test_ccp_takes_ordinary_batches_and_losses_of_pairs():
    assert sampling_rules(Config(method="ccp")) == (1, "all", True, False)
    with pytest.raises(
        ValueError, match="`loss` must be one of contrastive, .* with `method` ccp, got n_pair"
    ):
        sampling_rules(Config(method="ccp", loss="n_pair"))


def test_without_validation_classes_the_test_classes_are_evaluated():
    for one, other in zip(load_data(Config(dataset="emoji")), datasets.load("emoji")):
        assert one.class_names == other.class_names
        np.testing.assert_array_equal(one.labels, other.labels)


def test_validation_classes_reach_the_paper_s_data_sets(monkeypatch):
    """Each is read by `datasets.load`, whose training part alone is parted again."""
    parts = datasets.load("emoji")
    monkeypatch.setattr(datasets, "load", lambda *_, **__: parts)
    for name in ("cub200", "cars196", "sop"):
        train, validation = load_data(Config(dataset=name, validation_classes=0.5))
        assert not set(parts[1].class_names) & (set(train.class_names) | set(validation.class_names))


@pytest.mark.parametrize(
    ("method", "loss", "steps_per_projection", "queries"),
    [
        ("profs", "margin", 7, "representatives"),
        ("baseline", "margin", 1, "all"),
        ("baseline", "n_pair", 1, "representatives"),
        ("baseline", "angular", 1, "representatives"),
        ("proximal", "margin", 7, "all"),
        ("proximal", "n_pair", 7, "representatives"),
        ("proximal", "proxy_nca", 1, "all"),
        ("profs", "n_pair", 7, "representatives"),
        ("profs", "soft_triple", 1, "all"),
        ("profs_hncm", "proxy_nca", 1, "all"),
        ("baseline", "soft_triple", 1, "all"),
    ],
)
def test_method_and_loss_decide_projections_and_queries(method, loss, steps_per_projection, queries):
    config = Config(method=method, loss=loss, steps_per_projection=7, batch_size=8)
    assert sampling_rules(config)[:2] == (steps_per_projection, queries)
    sampler = build_sampler(config, datasets.load("emoji")[0])
    assert (sampler.steps_per_projection, sampler.queries) == (steps_per_projection, queries)


def test_five_images_of_a_class_in_a_batch_of_125():
    """As the margin and the multi-similarity papers have it: C = 25, so M = ceil(6 L / 25)."""
    images = datasets.load("emoji")[0]
    sampler = build_sampler(Config(images_per_class=5, batch_size=125), images)
    batch = sampler.batch(0)
    assert (sampler.classes_per_batch, len(batch.indices)) == (25, 125)
    assert sampler.steps_per_projection == -(-6 * images.num_classes // 25)
    assert batch.is_representative.sum() == 25
    np.testing.assert_array_equal(np.unique(batch.labels, return_counts=True)[1], [5] * 25)
    # In a class of at least five images they are five different ones.
    for label in np.unique(batch.labels):
        own = batch.indices[batch.labels == label]
        assert len(set(own)) == min(5, int(sampler.table.sizes[label]))


@pytest.mark.parametrize("draw", ["independent", "rounds"])
def test_classes_are_drawn_as_the_configuration_says(draw):
    images = ImageList.from_labels(np.zeros([12, 2, 2, 3], np.uint8), np.repeat(np.arange(6), 2))
    sampler = build_sampler(Config(class_draw=draw, batch_size=4), images)
    labels = np.reshape([sampler.batch(step).labels for step in range(60)], [20, -1])
    assert all(len(set(of_round)) == 6 for of_round in labels) == (draw == "rounds")


@pytest.mark.parametrize("loss", ["margin", "n_pair"])
def test_proximal_trains_on_the_batches_of_the_baseline(loss):
    """The pull alone: the same images and queries in every step, also within a projection."""
    images = datasets.load("emoji")[0]
    options = {"loss": loss, "steps_per_projection": 7, "batch_size": 8, "seed": 3}
    ours = build_sampler(Config(method="proximal", **options), images)
    baseline = build_sampler(Config(method="baseline", **options), images)
    for step in (0, 1, 6, 7, 100):
        # Every step of the baseline is a projection of its own.
        assert baseline.batch(step).projection_index == step
        for got, expected in zip(ours.batch(step)[:4], baseline.batch(step)[:4]):
            np.testing.assert_array_equal(got, expected)
    assert Config(method="proximal").effective_proximal_weight == 1e-3


def test_one_image_of_a_class_is_refused_unless_the_loss_has_prototypes():
    with pytest.raises(ValueError, match="`images_per_class` must be >= 2 for the loss triplet, got 1: a ba"):
        sampling_rules(Config(images_per_class=1, loss="triplet"))
    assert sampling_rules(Config(images_per_class=1, loss="proxy_nca")).queries == "all"


@pytest.mark.parametrize("loss", ["margin", "n_pair", "soft_triple"])
def test_pairs_of_two_representatives_are_left_out_of_losses_that_have_them(loss):
    built = build_loss(Config(loss=loss, representative_pairs=False), num_classes=3)
    assert built.representative_pairs == (loss != "margin")


def test_a_memory_is_built_around_losses_of_pairs_and_must_be_used():
    config = Config(loss="contrastive", xbm_size=32, xbm_weight=0.5, embedding_dim=4)
    built = build_loss(config, num_classes=3).get_config()
    assert built["loss"]["class_name"] == "ContrastiveLoss"
    chosen = {name: built[name] for name in ("embedding_dim", "size", "start_step", "weight")}
    assert chosen == {"embedding_dim": 4, "size": 32, "start_step": 1000, "weight": 0.5}
    for loss in ("n_pair", "proxy_nca"):
        with pytest.raises(ValueError, match=f"`loss` must be one of contrastive, .*memory, got {loss}"):
            sampling_rules(Config(loss=loss, xbm_size=32))
    check_memory_is_used(build_loss(config, 3), 1001)
    with pytest.raises(
        ValueError, match="`xbm_start_step` must be below the 1000 steps of the run, got 1000"
    ):
        check_memory_is_used(build_loss(config, 3), 1000)


@pytest.mark.parametrize(
    ("options", "longest"),
    [
        ({}, 10),
        ({"method": "proximal", "steps_per_projection": 9, "projection_patience": 3}, 9),
        ({"method": "baseline"}, None),
        ({"loss": "proxy_nca"}, None),
    ],
)
def test_projections_end_on_a_plateau_where_there_are_projections(options, longest):
    images = ImageList.from_labels(np.zeros([6, 2, 2, 3], np.uint8), np.repeat(np.arange(3), 2))
    sampler = build_sampler(
        Config(projection_end="plateau", batch_size=6, representative_uses=1, mining_lag=2, **options), images
    )
    assert isinstance(sampler, PlateauBatchSampler) == (longest is not None)
    if longest is None:
        assert sampler.steps_per_projection == 1
    else:
        rule = PlateauRule(stretch=1, patience=options.get("projection_patience", 2), longest=longest)
        assert (sampler.rule, sampler.lag) == (rule, 2)
        assert sampler.representative_reuse == (options.get("method") != "proximal")


@pytest.mark.parametrize("options", [{}, {"steps_per_projection": 7}, {"method": "proximal"}])
def test_the_first_projection_s_pull_is_left_out_for_its_m_steps(options):
    config = Config(**options, first_projection_pull=False, proximal_decay=0.5, batch_size=8)
    images = datasets.load("emoji")[0]
    steps = build_sampler(config, images).steps_per_projection
    weight = proximal_weight_of(config, images.num_classes, steps_per_epoch=steps)
    values = [float(weight(step)) for step in (0, steps - 1, steps, 2 * steps)]
    assert values == [0.0, 0.0, pytest.approx(0.5e-3), pytest.approx(0.25e-3)]
    # By default lambda is a number, and the baseline has none to delay.
    assert proximal_weight_of(Config(), 3, None) == 1e-3
    assert proximal_weight_of(Config(method="baseline", first_projection_pull=False), 3, None) == 0.0


def test_unknown_loss_is_refused_with_the_valid_names():
    with pytest.raises(ValueError, match="`name` must be one of angular, .*, triplet, got 'magrin'"):
        sampling_rules(Config(loss="magrin"))


# What is refused is refused by the sizes alone: neither of these images exists.
FILES = ImageList.from_labels(["a.jpg", "b.jpg"], [0, 1])
EMOJI = ImageList.from_labels(np.zeros((2, 48, 48, 3), np.uint8), [0, 1])


@pytest.fixture(scope="module")
def backbone_of_96_pixels(tmp_path_factory):
    """The file of a model that takes 96 x 96 pixels only, as its Dense layer has to."""
    path = tmp_path_factory.mktemp("backbone") / "own.keras"
    layers = [tf.keras.layers.AveragePooling2D(32), tf.keras.layers.Flatten(), tf.keras.layers.Dense(4)]
    tf.keras.Sequential([tf.keras.Input((96, 96, 3)), *layers]).save(path)
    return str(path)


def test_the_input_size_of_a_model_file_sets_the_default_sizes(backbone_of_96_pixels):
    config = Config(backbone=backbone_of_96_pixels)
    assert build_preprocessing(config, EMOJI) == Preprocessing(resize=96, crop=96, shift=8)
    assert build_preprocessing(config, FILES) == Preprocessing(resize=110, crop=96, shift=0)
    enlarged = Config(backbone=backbone_of_96_pixels, image_resize=128, image_shift=0)
    assert build_preprocessing(enlarged, FILES) == Preprocessing(resize=128, crop=96, shift=0)


@pytest.mark.parametrize("sizes", [{"image_resize": 64}, {"image_resize": 128, "image_crop": 64}])
@pytest.mark.parametrize("images", [FILES, EMOJI], ids=["files", "in memory"])
def test_a_crop_that_does_not_fit_a_model_file_is_refused(backbone_of_96_pixels, sizes, images):
    with pytest.raises(
        ValueError, match=r"`image_crop` must be 96 pixels for the backbone .* got 64\..*--image_"
    ):
        build_preprocessing(Config(backbone=backbone_of_96_pixels, **sizes), images)


@pytest.mark.parametrize(("backbone", "size"), [("conv4", 16), ("resnet50", 32), ("googlenet", 31)])
def test_a_crop_below_the_smallest_size_of_the_backbone_is_refused(backbone, size):
    message = (
        rf"`image_crop` must be >= {size} pixels for the backbone {backbone}, got 8\. Set --image_resize and"
    )
    for sizes in ({"image_resize": 8}, {"image_crop": 8}):
        with pytest.raises(ValueError, match=message):
            build_preprocessing(Config(backbone=backbone, **sizes), FILES)
    assert build_preprocessing(Config(backbone=backbone, image_crop=size), FILES).crop == size


def test_augmentation_reaches_the_pipeline_and_replaces_the_default_shift():
    asked = {"augmentation": "random_resized_crop", "color_jitter": 0.2, "erasing": 0.1}
    found = build_preprocessing(Config(backbone="conv4", **asked), EMOJI)
    assert found == Preprocessing(resize=48, crop=48, shift=0, **asked)
    with pytest.raises(ValueError, match="`shift` must be 0 with `augmentation` random_resized_crop, got 3"):
        build_preprocessing(Config(backbone="conv4", **asked, image_shift=3), EMOJI)


def test_the_best_embedder_needs_no_published_weights(tmp_path):
    config = Config(backbone="efficientnet_lite0", embedding_dim=4, freeze_batch_norm="statistics")
    embedder = build_embedder_for(config)
    embedder.save_weights(str(tmp_path / "best"))
    gone = dataclasses.replace(config, pretrained=str(tmp_path / "gone.pth"), seed=1)
    images = np.zeros([1, 32, 32, 3], np.float32)
    best = build_best_embedder(gone, tmp_path / "best")
    np.testing.assert_array_equal(best(images), embedder(images))
