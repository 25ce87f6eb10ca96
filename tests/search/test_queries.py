import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from profs_tf.inputs.decoding import UnreadableImageError, convert_pillow, read_image
from profs_tf.search.queries import check_files, embed_queries, list_queries
from tests.search.index_files import build


def test_every_kind_of_query_finds_the_same(pictures, embedders, tmp_path):
    index = build(pictures, embedders[0], tmp_path / "index")
    path = pictures / "1/07.png"
    image = Image.open(path)
    pixels = np.asarray(image)
    row = index.embeddings[index.names.index("1/07.png")]
    transparent = image.convert("RGBA")
    kinds = [
        path,
        str(path),
        path.read_bytes(),
        bytearray(path.read_bytes()),
        image,
        transparent,
        pixels,
        row,
    ]
    found = index.query(kinds, k=3, exclude_self=False)
    for kind, alone in zip(kinds, found):
        assert [item.name for item in alone] == [item.name for item in found[0]]
        np.testing.assert_allclose(
            [item.distance for item in alone], [item.distance for item in found[0]], atol=1e-5
        )
        (single,) = index.query(kind, k=3, exclude_self=False)
        assert [item.name for item in single] == [item.name for item in alone]
    assert found[0][0].name == "1/07.png"
    stacked = index.query(np.stack([pixels, pixels]), k=1)
    assert [item.name for (item,) in stacked] == ["1/07.png"] * 2
    assert len(index.query(tf.constant(index.embeddings[:3]), k=1)) == 3


def test_embeddings_need_no_embedder(pictures, embedders, tmp_path, monkeypatch):
    index = build(pictures, embedders[0], tmp_path / "index")
    monkeypatch.setattr("profs_tf.search.changes.SavedEmbedder", lambda path: pytest.fail("it was loaded"))
    assert index.query(index.embeddings[5], k=1)[0][0].name == index.names[5]


def test_a_pillow_image_is_read_as_its_file(tmp_path):
    upright = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
    exif = Image.Exif()
    exif[0x112] = 6
    buffer = io.BytesIO()
    Image.fromarray(np.rot90(upright)).save(buffer, "PNG", exif=exif)
    np.testing.assert_array_equal(convert_pillow(Image.open(buffer)), upright)
    np.testing.assert_array_equal(read_image(buffer.getvalue()), upright)
    cut = Image.open(io.BytesIO(buffer.getvalue()[:120]))
    with pytest.raises(UnreadableImageError, match="an image of Pillow: "):
        convert_pillow(cut)
    with pytest.raises(UnreadableImageError, match="3 bytes: it is in no known format"):
        read_image(b"abc")


@pytest.mark.parametrize(
    ("queries", "error", "message"),
    [
        ([], ValueError, "`queries` must hold at least one query"),
        (np.zeros([0, 4, 4, 3], np.uint8), ValueError, "`queries` must hold at least one query"),
        (np.array([]), ValueError, r"or an embedding, float \[D\], got float64 of shape \[0\]"),
        ([0.5], TypeError, r"`queries\[0\]` must be a path, .* got float"),
        (None, TypeError, r"`queries\[0\]` must be a path, .* got NoneType"),
        # Not the list of its lines.
        (io.BytesIO(b"a\nb"), TypeError, r"`queries\[0\]` must be a path, .* got BytesIO"),
        (Image.new("RGB", (0, 5)), ValueError, r"`queries\[0\]` must have pixels, got .* size \(0, 5\)"),
        (np.zeros([4, 4], np.uint8), ValueError, r"got uint8 of shape \[4, 4\]. Give gray images three"),
        (np.zeros([4, 4, 4], np.uint8), ValueError, "drop an alpha channel"),
        (np.zeros([4, 4, 3]), ValueError, r"got float64 of shape \[4, 4, 3\]. .* cast them to uint8"),
        (["a", np.arange(3)], ValueError, r"`queries\[1\]` must be an image, .* got int64 of shape \[3\]"),
    ],
)
def test_other_queries_are_refused(queries, error, message):
    with pytest.raises(error, match=message):
        list_queries(queries)


def test_paths_in_the_home_folder_are_found(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert list_queries("~/one.jpg") == ["/home/me/one.jpg"]
    assert list_queries(["~no user.jpg"]) == ["~no user.jpg"]
    with pytest.raises(UnreadableImageError, match="null byte"):
        check_files(["a\0b"])


def test_large_images_are_embedded_in_smaller_batches():
    class Embedder:
        def __init__(self):
            self.sizes = []

        def embed_pictures(self, pictures):
            self.sizes.append(len(pictures))
            return pictures[:, 0, 0, :1].astype(np.float32)

    model = Embedder()
    large = [np.broadcast_to(np.uint8(number), (4000, 2000, 3)) for number in range(5)]
    small = [np.full([2, 2, 3], number, np.uint8) for number in range(70)]
    embedded = embed_queries([*large, *small], lambda: model, 1)
    assert model.sizes == [2, 2, 1, 64, 6]
    np.testing.assert_array_equal(embedded[:, 0], [*range(5), *range(70)])


def test_embeddings_of_another_dimension_or_not_finite_are_refused(pictures, embedders, tmp_path):
    index = build(pictures, embedders[0], tmp_path / "index")
    with pytest.raises(ValueError, match="`queries` must have 8 dimensions .* got 5"):
        index.query(np.zeros(5), k=1)
    with pytest.raises(ValueError, match="`queries` must be finite"):
        index.query(np.full(8, np.nan), k=1)
