import io
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from profs_tf.inputs.decoding import UnreadableImageError
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.models.embedder import build_embedder
from profs_tf.serving.loaded import SavedEmbedder, embedder_sha256
from profs_tf.serving.saved_model import DESCRIPTION, describe, load_signature, save_embedder

PREPROCESSING = Preprocessing(resize=32, crop=24)


def small_embedder(normalize=True, dtype=None):
    """One whose layers are named differently each time, with fixed weights."""
    images = tf.keras.Input([24, 24, 3])
    features = tf.keras.layers.Conv2D(4, 3, strides=2, dtype=dtype)(images)
    backbone = tf.keras.Model(images, tf.keras.layers.Conv2D(4, 3, strides=2, dtype=dtype)(features))
    embedder = build_embedder(backbone, 8, normalize=normalize)
    random = np.random.default_rng(0)
    embedder.set_weights([random.normal(size=weight.shape) for weight in embedder.get_weights()])
    return embedder


def export(path, embedder=None, preprocessing=PREPROCESSING):
    save_embedder(embedder or small_embedder(), preprocessing, path)
    return path


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return export(tmp_path_factory.mktemp("exports") / "one")


@pytest.fixture(scope="module")
def sha256(exported):
    return SavedEmbedder(exported).sha256


def test_two_exports_of_the_same_weights_have_one_hash(exported, sha256, tmp_path):
    again = export(tmp_path / "again")
    graphs = [(path / "saved_model.pb").read_bytes() for path in (exported, again)]
    assert graphs[0] != graphs[1]
    assert SavedEmbedder(again).sha256 == sha256
    assert len(sha256) == 64


def test_another_structure_of_the_files_has_the_same_hash(exported, sha256, tmp_path):
    """As of another version of TensorFlow, which names and orders the weights in its own way."""
    module = tf.Module()
    weights = small_embedder().get_weights()
    module.weights = {f"w{number}": tf.Variable(weight) for number, weight in enumerate(reversed(weights))}
    tf.saved_model.save(module, str(tmp_path / "other"))
    shutil.copytree((exported / DESCRIPTION).parent, (tmp_path / "other" / DESCRIPTION).parent)
    assert SavedEmbedder(tmp_path / "other").sha256 == sha256


def test_another_weight_or_description_has_another_hash(exported, sha256, tmp_path):
    embedder = small_embedder()
    weights = embedder.get_weights()
    weights[0][0, 0, 0, 0] = np.nextafter(weights[0][0, 0, 0, 0], np.float32(9))
    embedder.set_weights(weights)
    assert SavedEmbedder(export(tmp_path / "weight", embedder)).sha256 != sha256
    shutil.copytree(exported, tmp_path / "crop")
    text = (exported / DESCRIPTION).read_text()
    (tmp_path / "crop" / DESCRIPTION).write_text(text.replace('"crop": 24', '"crop": 23'))
    assert SavedEmbedder(tmp_path / "crop").sha256 != sha256


def test_the_description_tells_apart_what_the_weights_do_not():
    described = [
        describe(small_embedder(), PREPROCESSING),
        describe(small_embedder(), Preprocessing(32, 20)),
        describe(small_embedder(), Preprocessing(30, 24)),
        describe(small_embedder(normalize=False), PREPROCESSING),
        describe(small_embedder(dtype="mixed_bfloat16"), PREPROCESSING),
    ]
    assert describe(small_embedder(), Preprocessing(32, 24, shift=2, mirror=False)) == described[0]
    assert len({str(description) for description in described}) == len(described)


def test_without_a_description_the_graph_counts(exported, sha256, tmp_path):
    paths = [tmp_path / name for name in ("one", "copy", "other")]
    for path, graph in zip(paths, (b"", b"", b"\0")):
        shutil.copytree(exported, path)
        (path / DESCRIPTION).unlink()
        (path / "saved_model.pb").write_bytes((path / "saved_model.pb").read_bytes() + graph)
    one, copy, other = (embedder_sha256(path) for path in paths)
    assert one == copy
    assert len({one, other, sha256}) == 3


def test_a_vocabulary_counts_by_its_words(tmp_path):
    hashes = []
    for number, words in enumerate((["a", "b"], ["a", "b"], ["a", "c"])):
        module = tf.Module()
        module.words = tf.Variable(words)
        tf.saved_model.save(module, str(tmp_path / f"{number}"))
        (tmp_path / f"{number}" / DESCRIPTION).parent.mkdir()
        (tmp_path / f"{number}" / DESCRIPTION).write_text("{}")
        hashes.append(embedder_sha256(tmp_path / f"{number}"))
    assert hashes[0] == hashes[1] != hashes[2]


def test_damaged_weights_are_refused_in_one_line(exported, tmp_path):
    path = tmp_path / "damaged"
    shutil.copytree(exported, path)
    data = path / "variables/variables.data-00000-of-00001"
    flipped = bytearray(data.read_bytes())
    flipped[50] ^= 1
    for content in (bytes(flipped), b""):
        data.write_bytes(content)
        with pytest.raises(ValueError, match="`embedder` must be a SavedModel that can be read") as caught:
            SavedEmbedder(path)
        assert "\n" not in str(caught.value)
    shutil.rmtree(path / "variables")
    with pytest.raises(ValueError, match="`embedder` must be a SavedModel that can be read"):
        SavedEmbedder(path)


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="`embedder` must be the folder of a SavedModel"):
        SavedEmbedder(tmp_path)


def test_embeds_pictures_and_files_and_reports_unreadable_ones(exported, tmp_path):
    model = SavedEmbedder(exported)
    pictures = np.random.default_rng(0).integers(0, 256, (2, 30, 40, 3), np.uint8)
    expected = model.embed_pictures(pictures)
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1, atol=1e-5)
    paths = [tmp_path / f"{number}.png" for number in range(2)]
    for path, picture in zip(paths, pictures):
        Image.fromarray(picture).save(path)
    np.testing.assert_allclose(model.embed_files(paths), expected, atol=1e-6)
    cut = tmp_path / "cut.jpg"
    buffer = io.BytesIO()
    Image.fromarray(pictures[0]).save(buffer, "JPEG")
    cut.write_bytes(buffer.getvalue()[:-300])
    embeddings, errors = model.embed_readable_files([cut, paths[0], tmp_path / "no.png", paths[1]])
    np.testing.assert_allclose(embeddings, expected, atol=1e-6)
    assert list(errors) == [0, 2]
    assert all(isinstance(error, UnreadableImageError) for error in errors.values())
    assert model.embed_readable_files([cut])[0].shape == (0, 8)


def test_the_model_is_loaded_once_by_several_threads(exported, monkeypatch):
    loaded = []

    def load(path, name):
        loaded.append(name)
        time.sleep(0.2)
        return load_signature(path, name)

    monkeypatch.setattr("profs_tf.serving.loaded.load_signature", load)
    model, picture = SavedEmbedder(exported), np.zeros([1, 30, 40, 3], np.uint8)
    with ThreadPoolExecutor(4) as pool:
        embeddings = list(pool.map(lambda _: model.embed_pictures(picture), range(4)))
    assert loaded == ["uint8_images"]
    assert all(np.array_equal(one, embeddings[0]) for one in embeddings)
