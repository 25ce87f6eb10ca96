import numpy as np
import pytest
import tensorflow as tf

from profs_tf import backbones
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.models.embedder import build_embedder
from profs_tf.runs.factory import in_precision
from profs_tf.serving import formats as export_formats
from profs_tf.serving.formats import (
    CARD,
    FORMATS,
    ExportMismatchError,
    check_agreement,
    check_formats,
    export_embedder,
    sample_of,
)
from tests.serving.exports import PREPROCESSING, describe, expected_of, small_embedder

TFLITE = ("tflite", "tflite_float16")


def test_all_formats_and_the_card_are_in_one_folder(exported):
    folder, differences = exported
    assert list(differences) == ["saved_model", *TFLITE]
    for name, difference in differences.items():
        assert 0 <= difference <= FORMATS[name].bound
    assert {"saved_model.pb", "embedder.tflite", "embedder_float16.tflite", CARD} <= {
        path.name for path in folder.iterdir()
    }
    assert (folder / CARD).read_text() == "card of saved_model, tflite, tflite_float16\n"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize("name", TFLITE)
def test_a_conversion_that_differs_is_refused_and_leaves_nothing(
    name, exported, pictures, tmp_path, monkeypatch
):
    content = (exported[0] / FORMATS[name].file).read_bytes()
    monkeypatch.setattr(export_formats, "to_tflite", lambda function, model, float16: content)
    other = build_embedder("conv4", 8, seed=2)
    with pytest.raises(ExportMismatchError, match=f"The format {name} differs by .* Nothing was written"):
        export_embedder(tmp_path / "out", (name,), other, PREPROCESSING, pictures, describe)
    assert list(tmp_path.iterdir()) == []


def test_a_saved_model_that_differs_is_refused_and_leaves_nothing(embedder, pictures, tmp_path, monkeypatch):
    save = export_formats.save_embedder
    other = small_embedder(seed=2)
    monkeypatch.setattr(export_formats, "save_embedder", lambda model, *rest: save(other, *rest))
    with pytest.raises(ExportMismatchError, match="The format saved_model differs"):
        export_embedder(tmp_path / "out", ("saved_model",), embedder, PREPROCESSING, pictures, describe)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_non_finite_embeddings_are_a_mismatch(wrong, embedder, pictures):
    with pytest.raises(ExportMismatchError, match="tflite differs by nan"):
        check_agreement("tflite", lambda images: np.full([1, 8], wrong), embedder, PREPROCESSING, pictures)


def test_embeddings_of_another_length_are_a_mismatch(embedder, pictures):
    with pytest.raises(ExportMismatchError, match=r"shape \(1, 7\), the Keras model \(1, 8\)"):
        check_agreement("tflite", lambda images: np.zeros([1, 7]), embedder, PREPROCESSING, pictures)


def test_the_bound_is_relative_for_long_embeddings(pictures):
    long = build_embedder("conv4", 8, normalize=False, seed=1)
    long.get_layer("head").kernel.assign(long.get_layer("head").kernel * 1e4)
    largest = np.max(np.abs(expected_of(long, pictures[:1])))
    assert largest > 100

    def embed(images):
        return expected_of(long, images) + 5e-4 * largest

    found = check_agreement("tflite", embed, long, PREPROCESSING, pictures[:1])
    assert found == pytest.approx(5e-4, rel=1e-2)
    with pytest.raises(ExportMismatchError):
        check_agreement(
            "tflite", lambda images: embed(images) + 1e-3 * largest, long, PREPROCESSING, pictures[:1]
        )


def test_the_files_of_a_killed_export_do_not_hinder(exported, embedder, pictures, tmp_path, monkeypatch):
    content = (exported[0] / "embedder.tflite").read_bytes()
    monkeypatch.setattr(export_formats, "to_tflite", lambda function, model, float16: content)
    left = tmp_path / ".out.part"
    left.mkdir()
    (left / "half a file").write_text("")
    export_embedder(tmp_path / "out", ("tflite",), embedder, PREPROCESSING, pictures[:1], describe)
    assert {path.name for path in tmp_path.rglob("*")} == {"out", "embedder.tflite", CARD}


def test_portable_formats_take_the_float32_embedder(exported, embedder, pictures, tmp_path, monkeypatch):
    content = (exported[0] / "embedder.tflite").read_bytes()
    converted = []
    monkeypatch.setattr(
        export_formats, "to_tflite", lambda function, model, float16: converted.append(model) or content
    )
    with in_precision("mixed_bfloat16"):
        mixed = build_embedder("conv4", 8, seed=1)
    export_embedder(
        tmp_path / "out",
        ("tflite",),
        mixed,
        PREPROCESSING,
        pictures[:1],
        describe,
        portable_embedder=embedder,
    )
    assert converted == [embedder]


def test_unknown_formats_and_none_are_refused():
    with pytest.raises(ValueError, match="`formats` must be among saved_model, tflite, .*, got 'tfjs'"):
        check_formats(["tflite", "tfjs"])
    with pytest.raises(ValueError, match="`formats` must name at least one of saved_model"):
        check_formats([])


def test_the_sample_spreads_over_memory_and_files(tmp_path):
    images = np.arange(10, dtype=np.uint8)[:, None, None, None] * np.ones([1, 4, 4, 3], np.uint8)
    sample = sample_of(ImageList.from_labels(images, range(10)), Preprocessing(0, 4))
    assert [picture[0, 0, 0] for picture in sample] == [0, 3, 6, 9]
    paths = []
    for number in range(2):
        paths.append(str(tmp_path / f"{number}.png"))
        tf.io.write_file(paths[-1], tf.io.encode_png(images[number]))
    files = ImageList.from_labels(paths, [0, 1])
    np.testing.assert_array_equal(sample_of(files, Preprocessing(4, 4)), images[:2])
    assert [picture.shape for picture in sample_of(files, Preprocessing(9, 7))] == [(9, 9, 3)] * 2


@pytest.mark.slow
@pytest.mark.parametrize("backbone", backbones.names())
def test_every_backbone_converts(backbone, tmp_path):
    """With the initial statistics of batch normalization deep networks would output almost zero."""
    preprocessing = Preprocessing(resize=72, crop=64)
    random = np.random.default_rng(0)
    coarse = random.integers(0, 256, (8, 12, 12, 3))
    images = np.clip(np.round(tf.image.resize(coarse, [80, 90], "bicubic").numpy()), 0, 255).astype(np.uint8)
    momentum = None if backbone == "googlenet" else 0.5
    network = build_embedder(backbone, 16, input_size=64, batch_norm_momentum=momentum, seed=1)
    for _ in range(10):
        network(images[:, :64, :64], training=True)
    expected = expected_of(network, images, preprocessing)
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1.0, atol=1e-3)
    assert np.max(np.ptp(expected, axis=0)) > 1e-3
    sample = sample_of(ImageList.from_labels(images[:2], [0, 1]), preprocessing)
    differences = export_embedder(tmp_path / "out", ("tflite",), network, preprocessing, sample, describe)
    assert differences["tflite"] <= 1e-3
