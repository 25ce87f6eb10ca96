import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.spatial.distance import pdist

from profs_tf.datasets.image_list import ImageList
from profs_tf.visual import tensorboard
from profs_tf.visual.tensorboard import EmbeddingBoard, pair_distances, sample_by_class, sprite
from profs_tf.visual.thumbnails import square_thumbnail

RANDOM = np.random.default_rng(0)
LABELS = np.repeat(np.arange(6), 5)
IMAGES = ImageList(
    RANDOM.integers(0, 256, (30, 8, 8, 3), np.uint8), LABELS, tuple(f"class\t{n}" for n in range(6)), "some"
)
EMBEDDINGS = RANDOM.normal(size=[30, 4]).astype(np.float32)


def summaries(folder):
    """Tag -> list of (step, value) in the folder's event files."""
    found = {}
    for path in folder.glob("events*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, tf.make_ndarray(value.tensor)))
    return found


def board_in(folder, *arguments):
    return EmbeddingBoard(folder, tf.summary.create_file_writer(str(folder)), *arguments)


def test_histograms_hold_all_pairs_of_the_sample(tmp_path):
    board = board_in(tmp_path, IMAGES)
    board.write(7, EMBEDDINGS)
    board.write_projector(EMBEDDINGS)
    found = summaries(tmp_path)
    assert set(found) == {"distances/positive", "distances/negative"}
    for name, pairs in (("positive", 6 * 10), ("negative", 30 * 29 // 2 - 60)):
        [(step, buckets)] = found[f"distances/{name}"]
        assert step == 7
        assert buckets[:, 2].sum() == pairs
    assert not (tmp_path / "projector").exists()


def test_full_adds_strips_and_the_projector(tmp_path):
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    board = board_in(tmp_path, IMAGES, "full")
    for step in (0, 5):
        board.write(step, EMBEDDINGS)
    board.write_projector(EMBEDDINGS)
    strips = summaries(tmp_path)["nearest"]
    assert [step for step, _ in strips] == [0, 5]
    width, height, picture = strips[0][1]
    assert tf.io.decode_png(picture).shape == (int(height), int(width), 3)
    config = text_format.Parse((tmp_path / "projector_config.pbtxt").read_text(), ProjectorConfig())
    [embedding] = config.embeddings
    # Where the data set's own split shares classes with training, not all are unseen.
    assert embedding.tensor_name == "evaluated images"
    points = np.loadtxt(tmp_path / embedding.tensor_path, delimiter="\t")
    np.testing.assert_allclose(points, EMBEDDINGS, rtol=1e-5)
    classes = (tmp_path / embedding.metadata_path).read_text().splitlines()
    assert classes == [f"class {label}" for label in LABELS]
    with Image.open(tmp_path / embedding.sprite.image_path) as sheet:
        assert sheet.size == (6 * 32, 6 * 32)
    assert list(embedding.sprite.single_image_dim) == [32, 32]


@pytest.mark.parametrize("num_gallery", [3, 24])
def test_strips_show_queries_and_what_they_find_in_the_gallery(num_gallery, tmp_path, monkeypatch):
    strips = []
    draw = tensorboard.draw_strip
    monkeypatch.setattr(tensorboard, "draw_strip", lambda rows, file: (strips.append(rows), draw(rows, file)))
    is_query = np.ones(30, bool)
    gallery = np.arange(30)[1::5][:3] if num_gallery == 3 else np.flatnonzero(np.arange(30) % 5)
    is_query[gallery] = False
    board_in(tmp_path, dataclasses.replace(IMAGES, is_query=is_query), "full").write(0, EMBEDDINGS)
    [rows] = strips
    position = {picture.tobytes(): index for index, picture in enumerate(IMAGES.images)}
    for (query, _), *found in rows:
        index = position[query.tobytes()]
        assert is_query[index]
        distances = np.linalg.norm(EMBEDDINGS[gallery] - EMBEDDINGS[index], axis=1)
        nearest = gallery[np.argsort(distances)[:5]]
        assert [position[picture.tobytes()] for picture, _ in found] == nearest.tolist()
        marks = ["\N{CHECK MARK}" if LABELS[one] == LABELS[index] else "\N{BALLOT X}" for one in nearest]
        assert [text[0] for _, text in found] == marks
    assert len(rows) == 4


def test_none_writes_nothing(tmp_path):
    board = board_in(tmp_path, IMAGES, "none")
    board.write(0, EMBEDDINGS)
    board.write_projector(EMBEDDINGS)
    assert summaries(tmp_path) == {}
    assert not (tmp_path / "projector_config.pbtxt").exists()


def test_unknown_detail_is_refused(tmp_path):
    with pytest.raises(ValueError, match="`detail` must be one of none, scalars, full, got 'all'"):
        board_in(tmp_path, IMAGES, "all")


def test_files_and_two_images_can_be_shown(tmp_path):
    paths = []
    for number in range(2):
        paths.append(str(tmp_path / f"{number}.png"))
        Image.fromarray(IMAGES.images[number]).save(paths[-1])
    board = board_in(tmp_path / "board", ImageList.from_labels(paths, [0, 0]), "full")
    board.write(0, EMBEDDINGS[:2])
    board.write_projector(EMBEDDINGS[:2])
    assert set(summaries(tmp_path / "board")) == {"distances/positive", "nearest"}


def test_bounding_boxes_are_cut_out(tmp_path, monkeypatch):
    shown, draw = [], tensorboard.draw_strip
    monkeypatch.setattr(tensorboard, "draw_strip", lambda rows, file: (shown.extend(rows), draw(rows, file)))
    pictures = np.random.default_rng(0).integers(0, 256, [2, 20, 20, 3], dtype=np.uint8)
    boxes = np.array([[0, 0, 5, 5], [10, 10, 10, 10]], np.float32)
    board = board_in(tmp_path, ImageList.from_labels(pictures, [0, 0], boxes=boxes), "full")
    board.write(0, EMBEDDINGS[:2])
    [(query, _), (neighbor, _)] = shown[0]
    np.testing.assert_array_equal(query, pictures[0, :5, :5])
    np.testing.assert_array_equal(neighbor, pictures[1, 10:, 10:])
    board.write_projector(EMBEDDINGS[:2])
    with Image.open(next(tmp_path.rglob("sprite.png"))) as sheet:
        expected = square_thumbnail(pictures[0, :5, :5], 32)
        np.testing.assert_array_equal(np.asarray(sheet)[:32, :32], np.asarray(expected))


@given(st.integers(2, 12), st.integers(0, 2**31))
def test_pair_distances_are_scipys(size, seed):
    random = np.random.default_rng(seed)
    embeddings, labels = random.normal(size=[size, 3]), random.integers(0, 3, size)
    positive, negative = pair_distances(embeddings, labels)
    expected = pdist(embeddings)
    same = pdist(labels[:, np.newaxis], lambda a, b: float(a[0] == b[0])) == 1
    np.testing.assert_allclose(positive, expected[same], atol=1e-6)
    np.testing.assert_allclose(negative, expected[~same], atol=1e-6)


def test_pair_distances_of_one_point_are_zero_not_nan():
    positive, negative = pair_distances(np.full([3, 2], 1e3), np.array([0, 0, 1]))
    np.testing.assert_array_equal(positive, 0)
    np.testing.assert_array_equal(negative, 0)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(1, 40), st.integers(1, 5))
def test_samples_take_whole_classes(labels, size, per_class):
    labels = np.array(labels)
    chosen = sample_by_class(labels, size, per_class)
    counts = np.bincount(labels)
    assert len(set(chosen)) == len(chosen) == min(size, np.minimum(counts, per_class).sum())
    np.testing.assert_array_equal(chosen, np.sort(chosen))
    taken = np.bincount(labels[chosen], minlength=len(counts))
    partly = (taken > 0) & (taken < np.minimum(counts, per_class))
    assert partly.sum() <= 1
    for label in np.flatnonzero(taken):
        places = np.flatnonzero(labels == label)
        np.testing.assert_array_equal(chosen[labels[chosen] == label], places[: taken[label]])


def test_a_sprite_shows_pictures_row_by_row():
    pictures = np.stack([np.full([4, 4, 3], value, np.uint8) for value in (10, 40, 20, 30)])
    images = ImageList.from_labels(pictures, [0, 0, 0, 0])
    sheet = np.asarray(sprite(images, np.array([0, 2, 3]), 4))[..., 0]
    assert sheet.shape == (8, 8)
    assert [sheet[2, 2], sheet[2, 6], sheet[6, 2], sheet[6, 6]] == [10, 20, 30, 255]
