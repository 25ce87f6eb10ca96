import struct

import numpy as np
import pytest
from PIL import Image, ImageOps

from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.decoding import (
    UnreadableImageError,
    read_all_encoded,
    read_by_pillow,
    read_contents,
    read_encoded,
    read_image,
    reencode_as_png,
)
from profs_tf.inputs.pipeline import evaluation_pipeline
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.inputs.tf_decoding import decode
from tests.inputs.encoded_images import COLORS, RANDOM, images_at, is_decoded_by_tensorflow, png

OPACITY = np.tile(np.linspace(0, 255, 40).astype(np.uint8), (28, 1))
DEEP = np.linspace(0, 65535, 28 * 40).reshape(28, 40).astype(np.uint16)


def read(path):
    """Reads a file as the pipeline does."""
    (image,) = images_at(path)
    assert image.dtype == np.uint8
    np.testing.assert_array_equal(image, read_image(path))
    return image.astype(int)


def by_pillow(path):
    return np.asarray(ImageOps.exif_transpose(Image.open(path)).convert("RGB")).astype(int)


def exif(orientation, kind=3, little=True):
    order = "<" if little else ">"
    value = struct.pack(order + ("H2x" if kind == 3 else "I"), orientation)
    head = (b"II*\0" if little else b"MM\0*") + struct.pack(order + "IH", 8, 1)
    return (
        b"Exif\0\0" + head + struct.pack(order + "HHI", 0x112, kind, 1) + value + struct.pack(order + "I", 0)
    )


@pytest.mark.parametrize("kind", ["RGB", "L"])
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}, {"dpi": (72, 72)}])
def test_plain_jpeg_is_decoded_by_tensorflow(kind, options, tmp_path):
    path = tmp_path / "a.jpg"
    Image.fromarray(COLORS).convert(kind).save(path, quality=90, **options)
    assert is_decoded_by_tensorflow(path)
    assert np.abs(read(path) - by_pillow(path)).max() <= 1


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(("kind", "little"), [(3, True), (3, False), (4, True), (4, False)])
def test_exif_orientation_of_jpeg_is_applied(orientation, kind, little, tmp_path):
    path = tmp_path / "a.jpg"
    Image.fromarray(COLORS).save(path, quality=90, exif=exif(orientation, kind, little))
    assert is_decoded_by_tensorflow(path) == (orientation == 1)
    image = read(path)
    assert image.shape[:2] == ((28, 40) if orientation <= 4 else (40, 28))
    assert np.abs(image - by_pillow(path)).max() <= 1
    # Independent of Pillow's own transposition.
    stored = np.asarray(Image.open(path)).astype(int)
    oriented = {
        1: stored,
        2: stored[:, ::-1],
        3: stored[::-1, ::-1],
        4: stored[::-1],
        5: stored.transpose(1, 0, 2),
        6: np.rot90(stored, -1),
        7: stored[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(stored),
    }[orientation]
    assert np.abs(image - oriented).max() <= 1


def test_xmp_orientation_of_jpeg_is_applied(tmp_path):
    path = tmp_path / "a.jpg"
    Image.fromarray(COLORS).save(path, xmp=b'<x:xmpmeta tiff:Orientation="6"/>')
    assert not is_decoded_by_tensorflow(path)
    assert read(path).shape == (40, 28, 3)


@pytest.mark.parametrize("adobe", [True, False])
def test_cmyk(adobe, tmp_path):
    path = tmp_path / "a.jpg"
    inks = Image.fromarray(np.dstack([COLORS, OPACITY // 2]), "CMYK")
    inks.save(path, quality=98, subsampling=0)
    encoded = path.read_bytes()
    marker = encoded.index(b"\xff\xee")
    assert encoded[marker + 4 : marker + 9] == b"Adobe"
    if not adobe:
        length = int.from_bytes(encoded[marker + 2 : marker + 4], "big")
        path.write_bytes(encoded[:marker] + encoded[marker + 2 + length :])
    assert not is_decoded_by_tensorflow(path)
    image = read(path)
    np.testing.assert_array_equal(image, by_pillow(path))
    # Ink is stored inverted: a page without ink is white.
    black = 255 - OPACITY[..., None].astype(int) // 2
    assert np.abs(image - (255 - COLORS.astype(int)) * black // 255).max() <= 12


def test_png_with_16_bits_of_gray_is_scaled(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(DEEP).save(path)
    expected = np.rint(DEEP / 257).astype(int)[..., None].repeat(3, axis=-1)
    assert is_decoded_by_tensorflow(path)
    np.testing.assert_array_equal(read(path), expected)
    np.testing.assert_array_equal(read_by_pillow(path), expected)


@pytest.mark.parametrize("kind", [2, 6])
def test_png_with_16_bits_of_color_is_scaled(kind, tmp_path):
    path = tmp_path / "a.png"
    channels = [DEEP, DEEP[::-1], DEEP[:, ::-1]]
    if kind == 6:
        channels.append(OPACITY.astype(np.uint16) * 257)
    path.write_bytes(png(np.dstack(channels), 16, kind))
    colors = np.dstack(channels[:3]) / 257
    opacity = OPACITY[..., None] / 255 if kind == 6 else 1.0
    assert np.abs(read(path) - (colors * opacity + 255 * (1 - opacity))).max() <= 1.0
    assert np.abs(read(path) - read_by_pillow(path).astype(int)).max() <= 1


def test_transparent_png_is_composited_on_white(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(np.dstack([COLORS, OPACITY])).save(path)
    opacity = OPACITY[..., None] / 255
    expected = np.floor(COLORS * opacity + 255 * (1 - opacity) + 0.5)
    assert is_decoded_by_tensorflow(path)
    assert np.abs(read(path) - expected).max() <= 0.5
    np.testing.assert_array_equal(read(path), read_by_pillow(path))


@pytest.mark.parametrize("mode", ["LA", "P", "L", "RGB"])
def test_other_forms_of_transparency_are_composited_on_white(mode, tmp_path):
    path = tmp_path / "a.png"
    if mode == "LA":
        Image.fromarray(np.dstack([COLORS, OPACITY])).convert("LA").save(path)
    elif mode == "P":
        Image.fromarray(COLORS).quantize(100).save(path, transparency=bytes(range(0, 200, 2)))
    else:
        image = Image.fromarray(COLORS).convert(mode)
        image.save(path, transparency=image.getpixel((3, 4)))
    expected = Image.new("RGBA", (40, 28), "white")
    expected.alpha_composite(Image.open(path).convert("RGBA"))
    assert is_decoded_by_tensorflow(path)
    assert np.abs(read(path) - np.asarray(expected)[..., :3].astype(int)).max() <= 1
    np.testing.assert_array_equal(read(path), read_by_pillow(path))


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", [0, 3])
def test_png_with_few_bits(depth, kind, tmp_path):
    path = tmp_path / "a.png"
    values = RANDOM.integers(0, 2**depth, (8, 16)).astype(np.uint16)
    palette = RANDOM.integers(0, 256, (2**depth, 3), np.uint8)
    path.write_bytes(png(values[..., None], depth, kind, palette))
    expected = palette[values] if kind == 3 else (values * (255 // (2**depth - 1)))[..., None].repeat(3, -1)
    np.testing.assert_array_equal(read(path), expected)


def test_exif_orientation_of_png_is_applied(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(COLORS).save(path, exif=exif(6)[6:])
    assert not is_decoded_by_tensorflow(path)
    np.testing.assert_array_equal(read(path), np.rot90(COLORS, -1))


@pytest.mark.parametrize(
    ("kind", "by_tensorflow"), [("GIF", False), ("PNG", True), ("BMP", False), ("WEBP", False)]
)
@pytest.mark.parametrize("name", ["a.jpg", "BILD mit Lücke.JPG"])
def test_the_contents_decide_not_the_name(kind, by_tensorflow, name, tmp_path):
    path = tmp_path / name
    quantized = Image.fromarray(COLORS).quantize(200).convert("RGB")
    quantized.save(path, kind, **({"lossless": True} if kind == "WEBP" else {}))
    assert is_decoded_by_tensorflow(path) == by_tensorflow
    np.testing.assert_array_equal(read(path), quantized)


def test_gif_and_bmp_with_palette(tmp_path):
    image = Image.fromarray(COLORS).quantize(64)
    moving, bitmap = tmp_path / "a.gif", tmp_path / "a.bmp"
    image.save(moving, transparency=7, save_all=True, append_images=[image.transpose(Image.ROTATE_180)])
    image.save(bitmap)
    expected = np.asarray(image.convert("RGB")).copy()
    np.testing.assert_array_equal(read(bitmap), expected)
    expected[np.asarray(image) == 7] = 255
    np.testing.assert_array_equal(read(moving), expected)


def test_encoded_images_are_decoded_correctly_by_tensorflow(tmp_path):
    oriented, plain = tmp_path / "oriented.jpg", tmp_path / "plain.jpg"
    Image.fromarray(COLORS).save(oriented, exif=exif(6))
    Image.fromarray(COLORS).save(plain)
    assert read_encoded(plain) == plain.read_bytes()
    np.testing.assert_array_equal(decode(read_encoded(oriented)), read(oriented))
    assert np.abs(decode(reencode_as_png(plain)).numpy() - read(plain)).max() <= 1
    assert read_all_encoded([plain, oriented]) == [read_encoded(plain), read_encoded(oriented)]


def test_files_read_together_are_those_read_one_by_one(tmp_path):
    cut = tmp_path / "cut.jpg"
    Image.fromarray(COLORS).save(tmp_path / "plain.png")
    Image.fromarray(COLORS).save(tmp_path / "animated.gif")
    Image.fromarray(COLORS).save(cut)
    # By its first bytes a JPEG file, with a header that TensorFlow cannot parse.
    cut.write_bytes(cut.read_bytes()[:20])
    sound = [tmp_path / "plain.png", tmp_path / "animated.gif"]
    assert read_all_encoded(sound) == [read_encoded(path) for path in sound]
    with pytest.raises(UnreadableImageError, match=r"cut\.jpg"):
        read_all_encoded([*sound, cut])


def test_files_that_were_read_are_not_read_again(tmp_path):
    names = ("plain.png", "oriented.jpg", "inks.jpg", "animated.gif", "cut.jpg")
    plain, oriented, inks, animated, cut = paths = [tmp_path / name for name in names]
    Image.fromarray(COLORS).save(plain)
    Image.fromarray(COLORS).save(oriented, exif=exif(6))
    Image.fromarray(COLORS).convert("CMYK").save(inks)
    Image.fromarray(COLORS).save(animated)
    cut.write_bytes(oriented.read_bytes()[:20])
    contents = read_contents(paths)
    sound = read_all_encoded(paths[:4])
    with pytest.raises(UnreadableImageError) as unreadable:
        read_encoded(cut)
    for path in paths:
        path.write_bytes(b"another file, in no format")
    assert read_all_encoded(paths[:4], contents[:4]) == sound
    assert [read_encoded(*one) for one in zip(paths[:4], contents)] == sound
    assert reencode_as_png(oriented, contents[1]) == sound[1]
    np.testing.assert_array_equal(read_by_pillow(animated, contents[3]), decode(sound[3]))
    # The corrupt header of one has all of a batch read one by one; the message still names its file.
    with pytest.raises(UnreadableImageError) as from_contents:
        read_all_encoded(paths, contents)
    assert str(from_contents.value) == str(unreadable.value)
    assert str(cut) in str(unreadable.value)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "it is empty"), (b"<html>", "it is in no known format")]
)
def test_messages_are_about_the_contents_that_were_read(content, reason, tmp_path):
    path = tmp_path / "gone.jpg"
    for read_again in (read_encoded, read_by_pillow, reencode_as_png):
        with pytest.raises(UnreadableImageError) as unreadable:
            read_again(path, content)
        assert unreadable.value.summary == f"{path}: {reason}"


@pytest.mark.parametrize("read_file", [read_image, read_encoded, lambda path: read_all_encoded([path])])
def test_pillow_decodes_the_bytes_that_tensorflow_cannot(read_file, tmp_path, monkeypatch):
    path = tmp_path / "animated.gif"
    Image.fromarray(COLORS).save(path)
    opened, by_pillow = [], Image.open
    monkeypatch.setattr(Image, "open", lambda file: (opened.append(file), by_pillow(file))[1])
    read_file(path)
    (file,) = opened
    assert file.getvalue() == path.read_bytes()


def test_files_are_decoded_in_order(tmp_path):
    paths = []
    for number in range(40):
        path = tmp_path / f"{number}.{'gif' if number % 3 else 'png'}"
        Image.new("RGB", (4, 4), (number, 0, 0)).save(path)
        paths.append(str(path))
    files = ImageList.from_labels(paths, np.zeros(40, int))
    images = np.concatenate(list(evaluation_pipeline(files, Preprocessing(0, 4), 7).as_numpy_iterator()))
    assert images[:, 0, 0, 0].tolist() == list(range(40))
