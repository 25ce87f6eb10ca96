"""Files that cannot be decoded, or are too large, are named with the reason."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.decoding import (
    UnreadableImageError,
    naming_unreadable_files,
    read_by_pillow,
    read_encoded,
    read_image,
    reading_problem,
)
from profs_tf.inputs.pipeline import evaluation_pipeline, train_pipeline
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.sampling.batch_sampler import BatchSampler
from tests.inputs.encoded_images import COLORS, claiming_size, images_at, is_decoded_by_tensorflow, png


def test_one_size_limit_holds_for_every_encoding(tmp_path):
    path = tmp_path / "large.jpg"
    encodings = [
        *((mode, "JPEG") for mode in ("RGB", "L", "CMYK")),
        *((mode, "PNG") for mode in ("RGB", "L", "P", "RGBA", "LA", "1", "I;16")),
        *((mode, kind) for mode in ("P", "L") for kind in ("GIF", "BMP")),
    ]
    too_large = [(*encoding, 8193) for encoding in encodings]
    # Pillow has limits of its own, at 9,460 and 13,378, whatever the mode.
    too_large += [("L", kind, side) for kind in ("JPEG", "PNG", "GIF", "BMP") for side in (9500, 14_000)]
    # There is no pixel data for that size: the header decides, hence with little memory.
    for mode, kind, side in too_large:
        path.write_bytes(claiming_size(mode, kind, side))
        assert not is_decoded_by_tensorflow(path), (mode, kind, side)
        assert reading_problem(path) == f"{path}: it has more than 67,108,864 pixels, scale it down"
        with pytest.raises(UnreadableImageError, match="67,108,864 pixels"):
            read_encoded(path)
        with pytest.raises(UnreadableImageError, match="67,108,864 pixels"), naming_unreadable_files():
            next(images_at(path))
    for encoding in encodings:
        path.write_bytes(claiming_size(*encoding, 100))
        assert "pixels, scale" not in (reading_problem(path) or "")


@pytest.mark.parametrize(("mode", "kind"), [("RGB", "JPEG"), ("L", "PNG"), ("P", "PNG"), ("RGBA", "PNG")])
def test_the_size_limit_itself_is_allowed(mode, kind, tmp_path):
    path = tmp_path / "large.jpg"
    path.write_bytes(claiming_size(mode, kind, 8192))
    assert is_decoded_by_tensorflow(path)


def broken_files(folder):
    """File name -> what the message says of it."""
    whole = io.BytesIO()
    Image.fromarray(COLORS).save(whole, "JPEG", quality=95)
    jpeg = whole.getvalue()
    png_file = png(COLORS, 8, 2)
    tables = bytearray(jpeg)
    start = tables.index(b"\xff\xc4")
    tables[start + 5 : start + 60] = b"\xff" * 55
    flipped = bytearray(png_file)
    flipped[len(flipped) // 2] ^= 0xFF
    contents = {
        "empty ü\n.jpg": (b"", "it is empty"),
        "TRUNCATED.JPG": (jpeg[: len(jpeg) // 2], "truncated"),
        "end missing.jpg": (jpeg[:-2], "truncated"),
        "head.jpg": (jpeg[:20], ""),
        "tables.jpg": (bytes(tables), ""),
        "text.png": (b"<html>404</html>", "no known format"),
        "cut.png": (png_file[: len(png_file) // 2], ""),
        "flipped.png": (bytes(flipped), ""),
        "signature.png": (png_file[:8], ""),
        "x.gif": (b"GIF89a", ""),
    }
    for name, (content, _) in contents.items():
        (folder / name).write_bytes(content)
    return {name: reason for name, (_, reason) in contents.items()}


def test_broken_files_are_named(tmp_path):
    for name, reason in broken_files(tmp_path).items():
        path = tmp_path / name
        with pytest.raises(UnreadableImageError) as direct:
            read_image(path)
        assert str(path) in str(direct.value)
        assert reason in str(direct.value)
        assert str(direct.value).count("\n") == name.count("\n")
        assert reading_problem(path) == direct.value.summary
        with pytest.raises(UnreadableImageError) as piped, naming_unreadable_files():
            next(images_at(path))
        assert str(piped.value) == str(direct.value)


def test_a_missing_file_is_named(tmp_path):
    path = tmp_path / "nowhere.jpg"
    for function in (read_image, read_encoded, read_by_pillow):
        with pytest.raises(UnreadableImageError, match=r"nowhere\.jpg: No such file or directory\. Replace"):
            function(path)


@pytest.mark.parametrize("name", ["tables.jpg", "cut.png"])
def test_evaluation_names_the_broken_file(name, tmp_path):
    broken_files(tmp_path)
    good = tmp_path / "good.jpg"
    Image.fromarray(COLORS).save(good)
    files = ImageList.from_labels([str(good)] * 7 + [str(tmp_path / name)], np.arange(8))
    with pytest.raises(UnreadableImageError, match=name), naming_unreadable_files():
        list(evaluation_pipeline(files, Preprocessing(24, 24), 4))


def test_fit_names_the_broken_file(tmp_path):
    (tmp_path / "broken ü.jpg").write_bytes(b"")
    files = ImageList.from_labels([str(tmp_path / "broken ü.jpg")] * 4, [0, 0, 1, 1])
    model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(tf.errors.OpError, match=r"must be readable, got .*broken ü\.jpg: it is empty"):
        model.fit(
            train_pipeline(files, BatchSampler(files.labels, 4), Preprocessing(8, 8)), steps_per_epoch=1
        )


def test_other_errors_pass_unchanged():
    with (
        pytest.raises(tf.errors.InvalidArgumentError, match="Incompatible shapes"),
        naming_unreadable_files(),
    ):
        tf.raw_ops.AddV2(x=[1, 2], y=[1, 2, 3])
