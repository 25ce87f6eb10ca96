import os
from unittest import mock

import numpy as np
import pytest
from PIL import Image

import profs_tf as profs
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.decoding import UnreadableImageError
from profs_tf.search.chunks import ChunkFolder
from profs_tf.search.source import source_of
from profs_tf.search.storage import IndexFolder
from profs_tf.serving.loaded import SavedEmbedder
from tests.search.index_files import build, contents, record_embedded


def chunk_names(pictures):
    source = source_of(pictures)
    return [source.names[part] for part in source.chunks()]


def interrupted_after(chunks):
    """Within it, a build is interrupted after so many chunks; gives the list of their sizes."""
    write, written = ChunkFolder.write, []

    def write_some(folder, key, chunk):
        if len(written) == chunks:
            raise KeyboardInterrupt
        written.append(len(chunk.embeddings))
        write(folder, key, chunk)

    return mock.patch.object(ChunkFolder, "write", write_some), written


@pytest.mark.parametrize("chunks", [0, 1, 3])
def test_interrupted_and_continued_has_the_same_bits(pictures, embedders, tmp_path, monkeypatch, chunks):
    build(pictures, embedders[0], tmp_path / "whole")
    patch, written = interrupted_after(chunks)
    with patch, pytest.raises(KeyboardInterrupt):
        build(pictures, embedders[0], tmp_path / "parts")
    with pytest.raises(FileNotFoundError, match="It was begun, but not finished"):
        profs.ImageIndex.load(tmp_path / "parts")
    embedded = record_embedded(monkeypatch)
    build(pictures, embedders[0], tmp_path / "parts")
    assert len(embedded) == 40 - sum(written)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_damaged_chunks_are_embedded_again(pictures, embedders, tmp_path, monkeypatch):
    build(pictures, embedders[0], tmp_path / "whole")
    patch, written = interrupted_after(3)
    with patch, pytest.raises(KeyboardInterrupt):
        build(pictures, embedders[0], tmp_path / "parts")
    first, second, _ = sorted(
        (tmp_path / "parts/chunks").glob("*.npz"), key=lambda path: path.stat().st_mtime_ns
    )
    flipped = bytearray(first.read_bytes())
    flipped[len(flipped) // 3] ^= 4
    first.write_bytes(flipped)
    second.write_bytes(second.read_bytes()[:100])
    embedded = record_embedded(monkeypatch)
    build(pictures, embedders[0], tmp_path / "parts")
    assert len(embedded) == 40 - written[2]
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_changed_new_and_removed_pictures_are_noticed(pictures, embedders, tmp_path, monkeypatch):
    index = build(pictures, embedders[0], tmp_path / "index")
    embedded = record_embedded(monkeypatch)
    build(pictures, embedders[0], tmp_path / "index")
    assert embedded == []
    before = chunk_names(pictures)
    Image.new("RGB", (9, 9), "red").save(pictures / "0/03.png")
    Image.new("RGB", (9, 9), "blue").save(pictures / "2/new.png")
    (pictures / "1/04.png").unlink()
    assert index.changed(range(40)) == ["0/03.png", "1/04.png"]
    again = build(pictures, embedders[0], tmp_path / "index")
    touched = [names for names in chunk_names(pictures) if "0/03.png" in names or names not in before]
    assert embedded == [name for names in touched for name in names]
    assert len(embedded) < 40
    build(pictures, embedders[0], tmp_path / "fresh")
    assert contents(tmp_path / "index") == contents(tmp_path / "fresh")
    assert again.changed(range(40)) == []
    nearest = again.query([np.full([9, 9, 3], [255, 0, 0], np.uint8)], k=1)[0][0]
    assert nearest.name == "0/03.png"
    assert nearest.distance < 1e-3


def test_unreadable_pictures_are_named_and_skipped_only_on_request(pictures, embedders, tmp_path):
    (pictures / "1/broken.png").write_bytes(b"no picture")
    (pictures / "dangling.png").symlink_to(tmp_path / "nowhere.png")
    whole = (pictures / "0/00.png").read_bytes()
    (pictures / "0/cut.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UnreadableImageError, match=r"0/cut\.png"):
        build(pictures, embedders[0], tmp_path / "index")
    index = build(pictures, embedders[0], tmp_path / "index", skip_unreadable=True)
    assert [name for name, _ in index.unreadable] == ["0/cut.png", "1/broken.png", "dangling.png"]
    assert "no known format" in index.unreadable[1][1]
    assert len(index) == len(index.embeddings) == 40
    row = index.names.index("0/03.png")
    np.testing.assert_allclose(
        index.embeddings[row], SavedEmbedder(embedders[0]).embed_files([pictures / "0/03.png"])[0], atol=1e-6
    )
    with pytest.raises(UnreadableImageError, match=r"0/cut\.png"):
        build(pictures, embedders[0], tmp_path / "index")


def test_a_picture_that_has_become_readable_is_indexed(pictures, embedders, tmp_path):
    path = pictures / "0/00.png"
    whole, times = path.read_bytes(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    # Of the same size and time, as a file is that another user has made readable.
    path.write_bytes(bytes(len(whole)))
    os.utime(path, ns=times)
    assert len(build(pictures, embedders[0], tmp_path / "index", skip_unreadable=True)) == 39
    path.write_bytes(whole)
    os.utime(path, ns=times)
    assert build(pictures, embedders[0], tmp_path / "index").unreadable == []
    build(pictures, embedders[0], tmp_path / "fresh")
    assert contents(tmp_path / "index") == contents(tmp_path / "fresh")


def test_other_pictures_replace_an_index_only_on_request(pictures, embedders, tmp_path):
    paths = sorted(map(str, pictures.rglob("*.png")))
    halves = [ImageList.from_labels(paths[part], [0, 1] * 10) for part in (slice(20), slice(20, 40))]
    for lists, message in (
        (halves, "got .* of 20 others with classes, the first 0/00.png"),
        ([str(pictures), halves[0]], "got .* of 40 others without classes, the first 0/00.png"),
    ):
        index = tmp_path / f"index {len(message)}"
        build(lists[0], embedders[0], index)
        with pytest.raises(ValueError, match=message):
            build(lists[1], embedders[0], index)
        assert len(build(lists[1], embedders[0], index, overwrite=True)) == 20


def test_an_embedding_that_is_not_finite_names_its_picture(pictures, embedders, tmp_path, monkeypatch):
    (pictures / "0/00.png").write_bytes(b"no picture")

    def broken(model, images, skip_unreadable):
        return np.full([len(images) - 1, 4], np.nan), {0: UnreadableImageError("0/00.png: broken")}

    monkeypatch.setattr(SavedEmbedder, "embed_batch", broken)
    with pytest.raises(ArithmeticError, match=r"must be finite, got another value for 0/03\.png\."):
        build(pictures, embedders[0], tmp_path / "index", skip_unreadable=True)


def test_another_embedder_is_refused_unless_it_overwrites(pictures, embedders, tmp_path):
    build(pictures, embedders[0], tmp_path / "index")
    with pytest.raises(ValueError, match=r"Pass `overwrite=True` to embed everything with the new one\."):
        build(pictures, embedders[1], tmp_path / "index")
    build(pictures, embedders[1], tmp_path / "index", overwrite=True)
    build(pictures, embedders[1], tmp_path / "fresh")
    assert contents(tmp_path / "index") == contents(tmp_path / "fresh")


def test_another_embedder_can_replace_one_that_embedded_nothing(pictures, embedders, tmp_path):
    folder = IndexFolder(tmp_path / "index")
    identity = {"embedder_sha256": "of another", "root": source_of(pictures).root}
    with folder.building(identity, overwrite=False):
        pass
    assert len(build(pictures, embedders[0], folder.path)) == 40


def test_a_second_builder_is_refused_while_the_first_one_works(pictures, embedders, tmp_path):
    build(pictures, embedders[0], tmp_path / "index")
    before = contents(tmp_path / "index")
    identity = {"embedder_sha256": SavedEmbedder(embedders[0]).sha256, "root": source_of(pictures).root}
    with IndexFolder(tmp_path / "index").building(identity, overwrite=False):
        for overwrite in (False, True):
            with pytest.raises(ValueError, match="`index` must not be written by two processes at once"):
                build(pictures, embedders[0], tmp_path / "index", overwrite=overwrite)
        # What is finished can be searched meanwhile.
        assert len(profs.ImageIndex.load(tmp_path / "index")) == 40
    build(pictures, embedders[0], tmp_path / "index")
    assert contents(tmp_path / "index") == before


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"images": "{0}/missing"}, NotADirectoryError, "`folder` must be a folder with images"),
        ({"images": "{0}/other"}, ValueError, "`folder` must hold images .* got none"),
        ({"embedder": "{0}/other"}, FileNotFoundError, "`embedder` must be the folder of a SavedModel"),
        ({"path": "{0}/other"}, FileExistsError, "`index` must be empty or an index"),
        ({"path": "{0}/other/a.txt"}, NotADirectoryError, "`index` must be a folder"),
        ({"path": "{0}/other/a.txt/index"}, NotADirectoryError, "`index` must be in a folder"),
        ({"path": ""}, ValueError, "`index` must name a folder"),
        ({"batch_size": 0}, ValueError, "`batch_size` must be a whole number >= 1, got 0"),
    ],
)
def test_bad_use_is_refused(change, error, message, pictures, embedders, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/a.txt").write_text("a")
    arguments = {"images": pictures, "embedder": embedders[0], "path": tmp_path / "index", **change}
    for name, value in arguments.items():
        arguments[name] = value.format(tmp_path) if isinstance(value, str) else value
    with pytest.raises(error, match=message):
        profs.ImageIndex.build(**arguments)
