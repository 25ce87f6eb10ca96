import numpy as np
import pytest

from profs_tf.serving.formats import check_formats, export_embedder
from profs_tf.serving.onnx import require_onnx
from tests.serving.exports import PREPROCESSING, describe, expected_of


def no_module(name, missing):
    if name == missing:
        raise ModuleNotFoundError(f"No module named {name!r}")


@pytest.mark.parametrize("missing", ["tf2onnx", "onnxruntime"])
def test_missing_libraries_are_named_with_the_cure(missing, monkeypatch):
    monkeypatch.setattr(
        "profs_tf.serving.onnx.importlib.import_module", lambda name: no_module(name, missing)
    )
    with pytest.raises(ValueError, match=rf"without {missing}, .*pip install 'profs_tf\[onnx\]'"):
        check_formats(["onnx"])


def test_embeds_batches_of_any_size_as_keras(embedder, pictures, tmp_path):
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
