import errno
import json
import os
import zlib
from io import BytesIO

import numpy as np
import pytest

import profs_tf as profs
from profs_tf.search.chunks import Chunk
from profs_tf.search.storage import IndexFolder
from profs_tf.search.writing import publish as publish_index
from profs_tf.search.writing import record_removed
from tests.search.index_files import build, contents

IDENTITY = {"embedder": "/e", "embedder_sha256": "abc", "root": "/pictures"}


def publish(path, normalized=True):
    """Writes an index of three embeddings, of two chunks."""
    folder = IndexFolder(path)
    embeddings = np.eye(3, 4, dtype=np.float32) * (1.0 if normalized else 2.0)
    table = {
        "names": ["a", "b", "c"],
        "sizes": [1, 2, 3],
        "mtimes_ns": [4, 5, 6],
        "chunks": [["k", 0, 2, []], ["l", 2, 3, []]],
        "unreadable": [],
        "classes": None,
    }
    chunks = [Chunk(embeddings[:2], []), Chunk(embeddings[2:], [])]
    pictures = np.arange(3 * 12, dtype=np.uint8).reshape(3, 2, 2, 3)
    with folder.building(IDENTITY, overwrite=False):
        publish_index(folder, IDENTITY, ["k", "l"], iter(chunks), table, pictures)
    return folder, embeddings, table, pictures


@pytest.mark.parametrize("normalized", [True, False])
def test_holds_what_was_published(tmp_path, normalized):
    folder, embeddings, table, pictures = publish(tmp_path / "index", normalized)
    manifest = folder.read_manifest()
    assert manifest["normalized"] is normalized
    assert (manifest["num_images"], manifest["embedding_dim"], manifest["root"]) == (3, 4, "/pictures")
    opened = folder.open()
    assert {name: getattr(opened.table, name) for name in table} == table
    assert opened.manifest == manifest
    np.testing.assert_array_equal(opened.embeddings, embeddings)
    np.testing.assert_array_equal(opened.pictures, pictures)
    assert len(contents(folder.path)) == 4


def test_every_flipped_bit_is_noticed(tmp_path):
    folder, *_ = publish(tmp_path / "index")
    with folder.changing() as opened:
        record_removed(folder, opened, [1])
    random = np.random.default_rng(0)
    for name, content in contents(folder.path).items():
        for position in random.choice(len(content), min(60, len(content)), replace=False):
            flipped = bytearray(content)
            flipped[position] ^= 1 << random.integers(8)
            (folder.path / name).write_bytes(flipped)
            with pytest.raises(ValueError, match=r"`index` must (be whole|have format)"):
                profs.ImageIndex.load(folder.path)
        (folder.path / name).write_bytes(content)
    assert profs.ImageIndex.load(folder.path).names == ("a", "c")


def test_an_index_of_the_first_format_says_how_to_rebuild_it(pictures, embedders, tmp_path):
    path = tmp_path / "index"
    build(pictures, embedders[0], path)
    whole = contents(path)
    # The first format had the hash of the export's files, and no checksums.
    manifest = json.loads((path / "index.json").read_text())
    old = {name: value for name, value in manifest.items() if not name.startswith("checksum")}
    (path / "index.json").write_text(json.dumps({**old, "format": 1, "embedder_sha256": "0" * 64}))
    message = r"`index` must have format 2 or 3, got 1 in .*index\.json\. Rebuild it with `overwrite=True`\."
    with pytest.raises(ValueError, match=message):
        profs.ImageIndex.load(path)
    with pytest.raises(ValueError, match=message):
        build(pictures, embedders[0], path)
    build(pictures, embedders[0], path, overwrite=True)
    assert contents(path) == whole


@pytest.mark.parametrize(
    ("pattern", "content"),
    [
        ("index.json", b"{"),
        ("index.json", b"[]"),
        ("index.json", b'{"format": 2}'),
        ("images-*.json", b"{}"),
        ("images-*.json", None),
        ("embeddings-*.npy", b"short"),
        ("embeddings-*.npy", None),
    ],
)
def test_a_damaged_index_names_its_file_and_is_rebuilt(pattern, content, pictures, embedders, tmp_path):
    path = tmp_path / "index"
    build(pictures, embedders[0], path)
    whole = contents(path)
    (file,) = path.glob(pattern)
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(ValueError, match=f"`index` must be whole, but {file} is not: .*`overwrite=True`"):
        profs.ImageIndex.load(path)
    build(pictures, embedders[0], path, overwrite=True)
    assert contents(path) == whole


def rewrite(path, manifest=None, table=None, embeddings=None):
    """Changes an index and makes its checksums those of what it holds now."""
    content = json.loads((path / "index.json").read_text())
    files = {name: path / content[name] for name in ("images", "embeddings")}
    if table is not None:
        files["images"].write_text(json.dumps({**json.loads(files["images"].read_text()), **table}))
    if embeddings is not None:
        files["embeddings"].write_bytes(embeddings)
    content["checksums"].update({name: zlib.crc32(file.read_bytes()) for name, file in files.items()})
    content.update(manifest or {})
    del content["checksum"]
    content["checksum"] = zlib.crc32(json.dumps(content, sort_keys=True).encode())
    (path / "index.json").write_text(json.dumps(content))


def npy(array):
    content = BytesIO()
    np.save(content, array)
    return content.getvalue()


@pytest.mark.parametrize(
    "change",
    [
        {"manifest": {"images": 5}},
        {"manifest": {"checksums": []}},
        {"manifest": {"pictures": None}},
        {"table": {"names": 5}},
        {"table": {"names": ["a", "b", 5]}},
        {"table": {"classes": ["x"]}},
        {"table": {"sizes": None}},
        {"table": {"unreadable": [["d"]]}},
        {"embeddings": npy(np.zeros((3, 4), "f")).replace(b"), }", b"), ( ")},
        {"embeddings": npy(np.zeros((3, 4), "f"))[:-4]},
        {"embeddings": npy(np.zeros((2, 4), "f"))},
        {"embeddings": b"PK\x05\x06" + bytes(18)},
    ],
)
def test_content_of_the_wrong_kind_is_refused_whatever_the_checksums_say(tmp_path, change):
    publish(tmp_path / "index")
    rewrite(tmp_path / "index")
    assert len(profs.ImageIndex.load(tmp_path / "index")) == 3
    rewrite(tmp_path / "index", **change)
    with pytest.raises(ValueError, match="`index` must be whole, .*`overwrite=True`"):
        profs.ImageIndex.load(tmp_path / "index")


def test_a_reader_follows_an_index_that_is_replaced_meanwhile(tmp_path, monkeypatch):
    folder, embeddings, table, _ = publish(tmp_path / "index")
    read, replaced = IndexFolder._open, []

    def replace_first(reader, manifest):
        if not replaced:
            replaced.append(manifest)
            with folder.building(IDENTITY, overwrite=False):
                chunk = Chunk(embeddings[::-1], [])
                publish_index(folder, IDENTITY, ["m"], [chunk], {**table, "names": ["d", "e", "f"]}, None)
        return read(reader, manifest)

    monkeypatch.setattr(IndexFolder, "_open", replace_first)
    opened = IndexFolder(tmp_path / "index").open()
    assert opened.table.names == ["d", "e", "f"]
    np.testing.assert_array_equal(opened.embeddings, embeddings[::-1])


def test_other_pictures_are_refused(tmp_path):
    folder, *_ = publish(tmp_path / "index")
    other = {**IDENTITY, "root": "/others"}
    message = "or of the same pictures, got .* of /pictures"
    with pytest.raises(ValueError, match=message), folder.building(other, overwrite=False):
        pass
    with folder.building(other, overwrite=True):
        pass


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_an_unwritable_folder_is_refused_in_one_line(tmp_path, monkeypatch, number):
    def refuse(*arguments, **options):
        raise OSError(number, os.strerror(number), str(tmp_path))

    publish(tmp_path / "index")
    monkeypatch.setattr("profs_tf.search.storage.locked", refuse)
    message = f"`index` must be writable, got .*index: {os.strerror(number)}"
    with pytest.raises(PermissionError, match=message):
        publish(tmp_path / "index")
    with pytest.raises(PermissionError, match=message), IndexFolder(tmp_path / "index").changing():
        pass


@pytest.mark.parametrize("function", ["write_chunks", "file_checksum", "write_manifest"])
def test_a_first_build_that_was_interrupted_while_it_published_can_be_continued(
    tmp_path, monkeypatch, function
):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"profs_tf.search.writing.{function}", interrupt)
        with pytest.raises(KeyboardInterrupt):
            publish(tmp_path / "index")
    (tmp_path / "index/embeddings-0.npy.part").write_bytes(b"of a process that was killed")
    publish(tmp_path / "index")
    publish(tmp_path / "whole")
    assert contents(tmp_path / "index") == contents(tmp_path / "whole")
