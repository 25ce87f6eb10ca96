import numpy as np
import pytest

from profs_tf.serving import tflite
from profs_tf.serving.formats import FORMATS
from profs_tf.serving.tflite import embed_by_tflite
from tests.serving.exports import expected_of

TFLITE = ("tflite", "tflite_float16")


def test_half_precision_takes_about_half_the_space(exported):
    folder, _ = exported
    whole, half = ((folder / FORMATS[name].file).stat().st_size for name in TFLITE)
    assert half < 0.65 * whole


@pytest.mark.parametrize("name", TFLITE)
def test_embeds_batches_of_any_size_as_keras(name, exported, embedder, pictures):
    content = (exported[0] / FORMATS[name].file).read_bytes()
    for picture in pictures:
        batch = np.stack([picture, picture[::-1], picture[:, ::-1]])
        got = embed_by_tflite(content, batch)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected_of(embedder, batch), atol=FORMATS[name].bound)
        np.testing.assert_allclose(np.linalg.norm(got, axis=1), 1.0, atol=1e-5)


def test_runs_as_the_model_card_says(exported, embedder, pictures):
    interpreter = tflite._interpreter_class()(str(exported[0] / "embedder.tflite"))
    images = pictures[1][np.newaxis].astype(np.float32)
    interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], images.shape)
    embeddings = interpreter.get_signature_runner()(images=images)["embeddings"]
    np.testing.assert_allclose(embeddings, expected_of(embedder, pictures[1:2]), atol=1e-3)
