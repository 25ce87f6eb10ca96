import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from profs_tf.inputs.tf_decoding import decode, decodes_correctly, eight_bits, on_white
from tests.inputs.encoded_images import claiming_size

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)


def encode(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "BMP", "GIF", "JPEG"])
def test_decodes(kind):
    encoded = encode(Image.fromarray(PIXELS).quantize(200).convert("RGB"), kind, quality=90)
    expected = np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))
    got = decode(tf.constant(encoded)).numpy()
    assert np.abs(got.astype(int) - expected.astype(int)).max() <= (1 if kind == "JPEG" else 0)
    assert bool(decodes_correctly(encoded)) == (kind in ("PNG", "JPEG"))


def test_a_corrupt_header_is_an_error():
    for kind in ("PNG", "JPEG"):
        encoded = encode(Image.fromarray(PIXELS), kind)[:20]
        try:
            assert not decodes_correctly(encoded)
        except tf.errors.InvalidArgumentError:
            assert kind == "JPEG"


def test_sizes_beyond_32_bits_do_not_wrap_around():
    for kind, side in (("JPEG", 65_500), ("PNG", 2**31 - 1), ("PNG", 2**31)):
        assert not decodes_correctly(claiming_size("L", kind, side))


def test_sixteen_bits_are_rounded_to_eight():
    values = np.arange(65_536)
    np.testing.assert_array_equal(eight_bits(values), np.rint(values / 257))


def test_alpha_blends_with_white():
    color, alpha = np.meshgrid(np.arange(256), np.arange(256))
    blended = on_white(np.stack([color, color, color, alpha], axis=-1))
    expected = color * (alpha / 255) + 255 * (1 - alpha / 255)
    assert np.abs(blended - expected[..., None]).max() <= 0.5
