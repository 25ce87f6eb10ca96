import io
import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.decoding import UnreadableImageError
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.models.inference import embed
from profs_tf.serving.saved_model import check_saved_model, embed_with_saved, load_signature, save_embedder
from tests.serving.exports import small_embedder

PREPROCESSING = Preprocessing(resize=32, crop=24)
PICTURES = np.random.default_rng(0).integers(0, 256, (6, 40, 30, 3), np.uint8)
LABELS = [0, 0, 1, 1, 2, 2]


@pytest.fixture(scope="module")
def embedder():
    return small_embedder(seed=1)


@pytest.fixture(scope="module")
def exported(embedder, tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "embedder ü"
    save_embedder(embedder, PREPROCESSING, path)
    return path


@pytest.fixture(scope="module")
def expected(embedder):
    return embed(embedder, ImageList.from_labels(PICTURES, LABELS), preprocessing=PREPROCESSING)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    paths = [str(folder / f"{number}.png") for number in range(len(PICTURES))]
    for path, picture in zip(paths, PICTURES):
        Image.fromarray(picture).save(path)
    return paths


def test_signatures_agree_with_the_evaluation(exported, expected):
    signatures = tf.saved_model.load(str(exported)).signatures
    encoded = []
    for picture in PICTURES:
        buffer = io.BytesIO()
        Image.fromarray(picture).save(buffer, "PNG")
        encoded.append(buffer.getvalue())
    for name, images in (
        ("serving_default", tf.constant(PICTURES, tf.float32)),
        ("uint8_images", tf.constant(PICTURES)),
        ("encoded_images", tf.constant(encoded)),
    ):
        got = signatures[name](images=images)["embeddings"]
        assert got.dtype == tf.float32
        np.testing.assert_allclose(got, expected, atol=1e-6, err_msg=name)


def test_files_and_memory_are_embedded_alike(exported, expected, files):
    for images in (PICTURES, files):
        got = embed_with_saved(exported, ImageList.from_labels(images, LABELS), batch_size=4)
        np.testing.assert_allclose(got, expected, atol=1e-6)


def test_as_a_keras_model_it_takes_prepared_images(exported, embedder):
    prepared = PICTURES[:, :24, :24]
    loaded = tf.keras.models.load_model(str(exported), compile=False)
    np.testing.assert_allclose(loaded(prepared), embedder(prepared), atol=1e-6)


def test_embeds_a_files_bytes_with_tensorflow_alone(exported, expected, files):
    program = """
        import sys
        import tensorflow as tf
        sys.modules["profs_tf"] = None  # importing it now fails, wherever it is installed
        embed = tf.saved_model.load(sys.argv[1]).signatures["encoded_images"]
        with open(sys.argv[2], "rb") as file:
            embedding = embed(images=tf.constant([file.read()]))["embeddings"]
        print(" ".join(str(value) for value in embedding.numpy()[0]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(exported), files[3]],
        capture_output=True,
        text=True,
        check=True,
        cwd=exported,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    np.testing.assert_allclose([float(text) for text in done.stdout.split()], expected[3], atol=1e-6)


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="`embedder` must be the folder of a SavedModel"):
        embed_with_saved(tmp_path, ImageList.from_labels(PICTURES, LABELS))


def test_a_run_without_an_export_is_told_how_to_export(tmp_path):
    for name in ("config.json", "best/weights.index"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    own = tmp_path / "embedder"
    command = f"profs_tf.export --run_dir={tmp_path} --output={own}`"
    for path in (tmp_path, own):
        with pytest.raises(FileNotFoundError, match=re.escape(command)):
            check_saved_model(path)
    own.mkdir()
    (own / "saved_model.pb").touch()
    check_saved_model(own)
    with pytest.raises(FileNotFoundError, match=re.escape(f"The run exported it to {own}.")):
        check_saved_model(tmp_path)


def test_a_model_without_the_signatures_is_refused(embedder, tmp_path):
    embedder.save(str(tmp_path / "plain"))
    with pytest.raises(
        ValueError,
        match="must have the signature uint8_images that gives `embeddings`, got .*tf.export",
    ):
        embed_with_saved(tmp_path / "plain", ImageList.from_labels(PICTURES, LABELS))


def test_bounding_boxes_are_refused(exported):
    boxed = ImageList.from_labels(PICTURES, LABELS, boxes=np.ones([6, 4], np.float32))
    with pytest.raises(ValueError, match="must have no bounding boxes"):
        embed_with_saved(exported, boxed)


def test_files_as_they_are_found_are_embedded_as_in_evaluation(exported, embedder, tmp_path):
    turned, moving, cut = (tmp_path / name for name in ("turned ü.jpg", "moving.jpg", "cut.jpg"))
    exif = Image.Exif()
    exif[0x112] = 6
    Image.fromarray(PICTURES[0]).save(turned, exif=exif)
    Image.fromarray(PICTURES[1]).quantize(50).save(moving, "GIF", transparency=3)
    files = ImageList.from_labels([str(turned), str(moving)], [0, 1])
    expected = embed(embedder, files, preprocessing=PREPROCESSING)
    np.testing.assert_allclose(embed_with_saved(exported, files), expected, atol=1e-6)
    plain = tmp_path / "plain.jpg"
    Image.fromarray(PICTURES[0]).save(plain)
    for whole in (turned, plain):
        cut.write_bytes(whole.read_bytes()[:-300])
        with pytest.raises(UnreadableImageError, match=r"cut\.jpg: image file is truncated"):
            embed_with_saved(exported, ImageList.from_labels([str(plain), str(cut)], [0, 1]))


def test_a_signature_that_gives_something_else_is_refused(tmp_path):
    module = tf.Module()
    spec = tf.TensorSpec([None, None, None, 3], tf.uint8)
    module.other = tf.function(lambda images: {"labels": tf.shape(images)}, input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path), signatures={"uint8_images": module.other})
    with pytest.raises(ValueError, match="signature uint8_images that gives `embeddings`, got"):
        load_signature(tmp_path, "uint8_images")


def test_a_damaged_saved_model_is_named(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"no model")
    with pytest.raises(ValueError, match=f"`embedder` must be a SavedModel that can be read, got {tmp_path}"):
        load_signature(tmp_path, "uint8_images")


def test_a_picture_that_the_embedder_does_not_take_is_named(tmp_path):
    means = tf.keras.Sequential([tf.keras.Input((8, 8, 3)), tf.keras.layers.GlobalAveragePooling2D()])
    save_embedder(means, Preprocessing(resize=0, crop=8), tmp_path / "embedder")
    for name, side in (("large", 9), ("small", 7)):
        Image.new("RGB", (side, 9)).save(tmp_path / f"{name}.png")
    files = ImageList.from_labels([str(tmp_path / f"{name}.png") for name in ("large", "small")], [0, 1])
    with pytest.raises(UnreadableImageError, match=r"small\.png: the embedder does not take it"):
        embed_with_saved(tmp_path / "embedder", files)


def test_embeddings_that_are_not_finite_name_their_picture(tmp_path):
    images = tf.keras.Input((2, 2, 3))
    outputs = 0.0 / tf.reduce_mean(images, axis=[1, 2])
    save_embedder(tf.keras.Model(images, outputs), Preprocessing(resize=2, crop=2), tmp_path / "embedder")
    pictures = np.ones([4, 2, 2, 3], np.uint8)
    pictures[2] = 0
    with pytest.raises(ArithmeticError, match="must be finite, got another value for image 2. Check"):
        embed_with_saved(tmp_path / "embedder", ImageList.from_labels(pictures, [0, 0, 1, 1]))


def test_a_path_at_which_tensorflow_finds_no_weights_is_refused(embedder, tmp_path):
    with pytest.raises(ValueError, match="`path` must have no"):
        save_embedder(embedder, PREPROCESSING, tmp_path / "e[1]")
    with pytest.raises(ValueError, match="`embedder` must have no"):
        check_saved_model(tmp_path / "e[1]")
