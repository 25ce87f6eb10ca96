import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from profs_tf import backbones
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.preprocessing import Preprocessing, prepare_for_evaluation
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
from profs_tf.serving.onnx import require_onnx
from profs_tf.serving.portable import portable_function, scale
from profs_tf.serving.tflite import embed_by_tflite

PREPROCESSING = Preprocessing(resize=32, crop=24)
SIZES = ((32, 32), (40, 30), (17, 23), (90, 121))
TFLITE = ("tflite", "tflite_float16")


@pytest.fixture(scope="module")
def pictures():
    """Smooth pictures, as photographs are: of noise, scaling would leave half."""
    random = np.random.default_rng(0)
    made = []
    for height, width in SIZES:
        coarse = random.integers(0, 256, (height // 8 + 2, width // 8 + 2, 3))
        smooth = tf.image.resize(coarse, [height, width], "bicubic").numpy()
        made.append(np.clip(np.round(smooth), 0, 255).astype(np.uint8))
    return made


@pytest.fixture(scope="module")
def embedder():
    return build_embedder("conv4", 8, seed=1)


@pytest.fixture(scope="module")
def exported(embedder, pictures, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "embedder ü"
    names = ("tflite_float16", "saved_model", "tflite")
    differences = export_embedder(folder, names, embedder, PREPROCESSING, pictures, describe)
    return folder, differences


def describe(differences):
    return f"card of {', '.join(differences)}\n"


def expected_of(embedder, images, preprocessing=PREPROCESSING):
    prepared = tf.stack([prepare_for_evaluation(tf.constant(image), preprocessing) for image in images])
    return embedder(prepared, training=False).numpy()


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


def test_half_precision_takes_about_half_the_space(exported):
    folder, _ = exported
    whole, half = ((folder / FORMATS[name].file).stat().st_size for name in TFLITE)
    assert half < 0.65 * whole


@pytest.mark.parametrize("name", TFLITE)
def test_tflite_embeds_batches_of_any_size_as_keras(name, exported, embedder, pictures):
    content = (exported[0] / FORMATS[name].file).read_bytes()
    for picture in pictures:
        batch = np.stack([picture, picture[::-1], picture[:, ::-1]])
        got = embed_by_tflite(content, batch)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected_of(embedder, batch), atol=FORMATS[name].bound)
        np.testing.assert_allclose(np.linalg.norm(got, axis=1), 1.0, atol=1e-5)


def test_tflite_runs_as_the_model_card_says(exported, embedder, pictures):
    interpreter = tf.lite.Interpreter(str(exported[0] / "embedder.tflite"))
    images = pictures[1][np.newaxis].astype(np.float32)
    interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], images.shape)
    embeddings = interpreter.get_signature_runner()(images=images)["embeddings"]
    np.testing.assert_allclose(embeddings, expected_of(embedder, pictures[1:2]), atol=1e-3)


@pytest.mark.parametrize(
    "preprocessing",
    [Preprocessing(resize=0, crop=16), Preprocessing(resize=24, crop=24), Preprocessing(resize=31, crop=24)],
)
def test_every_preprocessing_is_inside(preprocessing, embedder, pictures):
    function = portable_function(embedder, preprocessing)
    for picture in pictures:
        got = function(tf.constant(picture[np.newaxis], tf.float32))["embeddings"]
        np.testing.assert_allclose(got, expected_of(embedder, [picture], preprocessing), atol=1e-3)


@settings(max_examples=40)
@given(st.integers(1, 90), st.integers(1, 90), st.integers(1, 60), st.integers(0, 2**31))
def test_scaling_is_that_of_tensorflow(height, width, side, seed):
    images = np.random.default_rng(seed).integers(0, 256, (2, height, width, 3)).astype(np.float32)
    got = scale(tf.constant(images), side).numpy()
    wanted = tf.image.resize(images, [side, side], antialias=True).numpy()
    # Rounding is part of scaling: the values themselves agree to a thousandth of a grey level.
    assert np.max(np.abs(got - wanted)) <= 0.501
    np.testing.assert_array_equal(got, np.round(got))


def test_size_zero_leaves_the_size():
    images = tf.random.stateless_uniform([1, 5, 7, 3], [0, 0], 0, 255)
    assert scale(images, 0) is images


def test_values_between_whole_ones_are_rounded_as_the_signatures_do(embedder, pictures):
    function = portable_function(embedder, PREPROCESSING)
    whole = tf.constant(pictures[0][np.newaxis], tf.float32)
    np.testing.assert_array_equal(
        function(whole + 0.3)["embeddings"], function(tf.clip_by_value(whole, 0.0, 255.0))["embeddings"]
    )


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
    other = build_embedder("conv4", 8, seed=2)
    monkeypatch.setattr(export_formats, "save_embedder", lambda model, *rest: save(other, *rest))
    with pytest.raises(ExportMismatchError, match="The format saved_model differs"):
        export_embedder(tmp_path / "out", ("saved_model",), embedder, PREPROCESSING, pictures, describe)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_embeddings_that_are_no_numbers_are_a_mismatch(wrong, embedder, pictures):
    with pytest.raises(ExportMismatchError, match="tflite differs by nan"):
        check_agreement("tflite", lambda images: np.full([1, 8], wrong), embedder, PREPROCESSING, pictures)


def test_embeddings_of_another_length_are_a_mismatch(embedder, pictures):
    with pytest.raises(ExportMismatchError, match=r"shape \(1, 7\), the Keras model \(1, 8\)"):
        check_agreement("tflite", lambda images: np.zeros([1, 7]), embedder, PREPROCESSING, pictures)


def test_the_bound_is_relative_where_embeddings_are_long(pictures):
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


def test_what_a_killed_export_left_is_no_hindrance(exported, embedder, pictures, tmp_path, monkeypatch):
    content = (exported[0] / "embedder.tflite").read_bytes()
    monkeypatch.setattr(export_formats, "to_tflite", lambda function, model, float16: content)
    left = tmp_path / ".out.part"
    left.mkdir()
    (left / "half a file").write_text("")
    export_embedder(tmp_path / "out", ("tflite",), embedder, PREPROCESSING, pictures[:1], describe)
    assert {path.name for path in tmp_path.rglob("*")} == {"out", "embedder.tflite", CARD}


def test_an_embedder_in_half_precision_goes_with_its_plain_twin(
    exported, embedder, pictures, tmp_path, monkeypatch
):
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


@pytest.mark.parametrize("missing", ["tf2onnx", "onnxruntime"])
def test_missing_libraries_are_named_with_the_cure(missing, monkeypatch):
    monkeypatch.setattr(
        "profs_tf.serving.onnx.importlib.import_module", lambda name: no_module(name, missing)
    )
    with pytest.raises(ValueError, match=rf"without {missing}, .*pip install 'profs_tf\[onnx\]'"):
        check_formats(["onnx"])


def no_module(name, missing):
    if name == missing:
        raise ModuleNotFoundError(f"No module named {name!r}")


def test_onnx_embeds_batches_of_any_size_as_keras(embedder, pictures, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("tf2onnx")
    require_onnx()
    differences = export_embedder(tmp_path / "out", ("onnx",), embedder, PREPROCESSING, pictures, describe)
    assert differences["onnx"] <= 1e-3
    session = onnxruntime.InferenceSession(
        str(tmp_path / "out/embedder.onnx"), providers=["CPUExecutionProvider"]
    )
    for picture in pictures:
        batch = np.stack([picture, picture[::-1]])
        got = session.run(["embeddings"], {"images": batch.astype(np.float32)})[0]
        np.testing.assert_allclose(got, expected_of(embedder, batch), atol=1e-3)


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
    """Of batch normalisation's statistics at their start, deep networks would give next to nothing."""
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
