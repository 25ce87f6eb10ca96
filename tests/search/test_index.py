import functools
import json
import os
from unittest import mock

import numpy as np
import pytest
from PIL import Image

import profs_tf as profs
from profs_tf.inputs.decoding import UnreadableImageError
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.models.embedder import build_embedder
from profs_tf.search import builder as index_building
from profs_tf.search import source as index_source
from profs_tf.search.chunks import ChunkFolder
from profs_tf.search.storage import IndexFolder
from profs_tf.serving import loaded as saved_embedder
from profs_tf.serving.loaded import SavedEmbedder
from profs_tf.serving.saved_model import embed_with_saved, save_embedder


@pytest.fixture(scope="module")
def embedders(tmp_path_factory):
    """Two untrained ones, whose pictures are 24 x 24."""
    root = tmp_path_factory.mktemp("embedders")
    for seed in (1, 2):
        save_embedder(build_embedder("conv4", 8, seed=seed), Preprocessing(24, 24), root / f"{seed}")
    return root / "1", root / "2"


@pytest.fixture(scope="module", autouse=True)
def loaded_once():
    """Loading a SavedModel takes seconds; what is loaded stays the same."""
    cached = functools.lru_cache(maxsize=None)(saved_embedder.load_signature)
    with mock.patch.object(saved_embedder, "load_signature", cached):
        yield


@pytest.fixture
def pictures(tmp_path):
    """Forty pictures in a folder, some deeper; chunks of about four."""
    root = tmp_path / "bilder ü"
    random = np.random.default_rng(0)
    for number in range(40):
        path = root / f"{number % 3}" / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (20, 30, 3), np.uint8)).save(path)
    with mock.patch.object(index_source, "_MEAN_CHUNK", 4):
        yield root


def chunk_names(pictures):
    source = index_source.source_of(pictures)
    return [source.names[part] for part in source.chunks()]


def contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def build(pictures, embedder, path, **options):
    return profs.ImageIndex.build(pictures, embedder, path, batch_size=3, **options)


def counted(monkeypatch):
    """Names of the files that are embedded from now on."""
    names = []
    embed = index_building._embed_batch

    def count(source, model, batch, skip):
        names.extend(source.names[batch])
        return embed(source, model, batch, skip)

    monkeypatch.setattr(index_building, "_embed_batch", count)
    return names


def test_holds_every_pictures_embedding(pictures, embedders, tmp_path):
    index = build(pictures, embedders[0], tmp_path / "index")
    paths = sorted(str(path) for path in pictures.rglob("*.png"))
    assert list(index.names) == [os.path.relpath(path, pictures) for path in paths]
    expected = embed_with_saved(embedders[0], profs.datasets.ImageList.from_labels(paths, range(40)))
    np.testing.assert_allclose(index.embeddings, expected, atol=1e-6)
    assert index.embeddings.dtype == np.float32
    assert (index.embedding_dim, index.normalized, len(index)) == (8, True, 40)
    assert index.embedder_sha256 == SavedEmbedder(embedders[0]).sha256 != SavedEmbedder(embedders[1]).sha256
    assert sorted(file.split("-")[0] for file in os.listdir(tmp_path / "index")) == [
        "embeddings",
        "images",
        "index.json",
    ]


@pytest.mark.parametrize("chunks", [0, 1, 3])
def test_interrupted_and_built_on_has_the_same_bits(pictures, embedders, tmp_path, monkeypatch, chunks):
    build(pictures, embedders[0], tmp_path / "whole")
    write, written = ChunkFolder.write, []

    def write_some(folder, key, chunk):
        if len(written) == chunks:
            raise KeyboardInterrupt
        written.append(len(chunk.embeddings))
        write(folder, key, chunk)

    with mock.patch.object(ChunkFolder, "write", write_some), pytest.raises(KeyboardInterrupt):
        build(pictures, embedders[0], tmp_path / "parts")
    with pytest.raises(FileNotFoundError, match="It was begun, but not finished"):
        profs.ImageIndex.load(tmp_path / "parts")
    embedded = counted(monkeypatch)
    build(pictures, embedders[0], tmp_path / "parts")
    assert len(embedded) == 40 - sum(written)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_a_changed_a_new_and_a_removed_picture_are_noticed(pictures, embedders, tmp_path, monkeypatch):
    index = build(pictures, embedders[0], tmp_path / "index")
    embedded = counted(monkeypatch)
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


def test_another_model_is_noticed(pictures, embedders, tmp_path):
    index = build(pictures, embedders[0], tmp_path / "index")
    picture = str(pictures / "0/00.png")
    with pytest.raises(ValueError, match="`embedder` must be the one of the index"):
        index.query([picture], embedder=embedders[1])
    with pytest.raises(ValueError, match=r"Pass --overwrite to embed everything by the new one\."):
        build(pictures, embedders[1], tmp_path / "index")
    build(pictures, embedders[1], tmp_path / "index", overwrite=True)
    build(pictures, embedders[1], tmp_path / "fresh")
    assert contents(tmp_path / "index") == contents(tmp_path / "fresh")


def test_unreadable_pictures_are_named_and_left_out_only_when_asked(pictures, embedders, tmp_path):
    (pictures / "1/broken.png").write_bytes(b"no picture")
    whole = (pictures / "0/00.png").read_bytes()
    (pictures / "0/cut.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UnreadableImageError, match=r"0/cut\.png"):
        build(pictures, embedders[0], tmp_path / "index")
    index = build(pictures, embedders[0], tmp_path / "index", skip_unreadable=True)
    assert [name for name, _ in index.unreadable] == ["0/cut.png", "1/broken.png"]
    assert "no known format" in index.unreadable[1][1]
    assert len(index) == len(index.embeddings) == 40
    row = index.names.index("0/03.png")
    np.testing.assert_allclose(
        index.embeddings[row], SavedEmbedder(embedders[0]).embed_files([pictures / "0/03.png"])[0], atol=1e-6
    )
    with pytest.raises(UnreadableImageError, match=r"0/cut\.png"):
        build(pictures, embedders[0], tmp_path / "index")


def test_a_picture_of_the_index_does_not_find_itself(pictures, embedders, tmp_path):
    index = build(pictures, embedders[0], tmp_path / "index")
    path = pictures / "1/07.png"
    link = tmp_path / "link.png"
    link.symlink_to(path)
    outside = tmp_path / "copy.png"
    outside.write_bytes(path.read_bytes())
    by_path, by_link, by_copy = index.query([str(path), link, outside], k=3)
    assert by_path == by_link
    assert by_copy[0].name == "1/07.png"
    assert [item.name for item in by_copy[1:]] == [item.name for item in by_path[:2]]
    assert index.query([path], k=3, exclude_self=False)[0][0].name == "1/07.png"
    np.testing.assert_allclose(
        [item.distance for item in index.query_indexed([index.names.index("1/07.png")], k=3)[0]],
        [item.distance for item in by_path],
        atol=1e-5,
    )


def test_agrees_with_the_evaluations_recall(embedders, tmp_path):
    test = profs.datasets.load("emoji")[1]
    test = test.subset_of_classes(np.arange(120))
    index = profs.ImageIndex.build(test, embedders[0], tmp_path / "index")
    queries = np.random.default_rng(0).choice(len(test), 200, replace=False)
    found = index.query_indexed(queries, k=8)
    hits = [index.class_names[q] in {item.class_name for item in row} for q, row in zip(queries, found)]
    embeddings = embed_with_saved(embedders[0], test)
    expected = profs.metrics.evaluate_retrieval(embeddings, test.labels)
    np.testing.assert_array_equal(hits, expected.hits_at(8)[queries])
    assert index.class_names[0] == test.class_names[test.labels[0]]
    np.testing.assert_array_equal(index.picture(5), test.images[5])


def test_a_data_set_of_files_keeps_its_classes(pictures, embedders, tmp_path):
    images = profs.datasets.list_folder(pictures)
    index = build(images, embedders[0], tmp_path / "index")
    assert index.names[0] == "0/00.png"
    assert index.class_names == tuple(images.class_names[label] for label in images.labels)
    assert index.picture(0) == images.images[0]


def test_chunks_cover_all_and_stay_where_others_change():
    names = [f"{number:05}.png" for number in range(9000)]

    def chunks(names):
        source = index_source.IndexSource("/r", tuple(names), tuple(names))
        return [tuple(names[part]) for part in source.chunks()]

    before, after = chunks(names), chunks([*names[:4000], "04000a.png", *names[4000:]])
    assert [name for chunk in before for name in chunk] == names
    assert max(map(len, before)) <= 2048
    assert len(set(before) - set(after)) <= 2


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"images": "{0}/missing"}, NotADirectoryError, "`path` must be a folder with pictures"),
        ({"images": "{0}/other"}, ValueError, "`path` must have pictures .* got none"),
        ({"embedder": "{0}/other"}, FileNotFoundError, "`embedder` must be the folder of a SavedModel"),
        ({"path": "{0}/other"}, FileExistsError, "`index` must be empty or an index"),
        ({"path": "{0}/other/a.txt"}, NotADirectoryError, "`index` must be a folder"),
        ({"path": "{0}/other/a.txt/index"}, NotADirectoryError, "`index` must be in a folder"),
        ({"path": ""}, ValueError, "`index` must name a folder"),
        ({"batch_size": 0}, ValueError, "`batch_size` must be >= 1, got 0"),
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


def test_bad_questions_are_refused(pictures, embedders, tmp_path):
    index = build(pictures, embedders[0], tmp_path / "index")
    for call, message in (
        (lambda: index.query([]), "`pictures` must hold at least one picture"),
        (lambda: index.query([pictures / "0/00.png"], k=40), "`k` must be <= 39"),
        (lambda: index.query([tmp_path / "no.png"]), r"no\.png: No such file"),
        (lambda: index.query_indexed([0], search="guess"), "`search` must be one of exact, faiss"),
        (lambda: index.query_indexed([40]), r"`positions` must be in 0\.\.39"),
        (lambda: index.query_indexed([0.5]), "`positions` must be a flat sequence of integers"),
        (lambda: build(pictures / "0", embedders[0], tmp_path / "index"), "or of the same pictures"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    manifest = tmp_path / "index/index.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 1}))
    with pytest.raises(ValueError, match="`index` must have format 2, got 1"):
        profs.ImageIndex.load(tmp_path / "index")


def test_another_embedder_can_take_the_place_of_one_that_embedded_nothing(pictures, embedders, tmp_path):
    folder = IndexFolder(tmp_path / "index")
    source = index_source.source_of(pictures)
    with folder.building({"embedder_sha256": "of another", "root": source.root}, overwrite=False):
        pass
    assert len(build(pictures, embedders[0], folder.path)) == 40


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
def test_a_damaged_index_names_its_file_and_is_built_anew(pattern, content, pictures, embedders, tmp_path):
    path = tmp_path / "index"
    build(pictures, embedders[0], path)
    whole = contents(path)
    (file,) = path.glob(pattern)
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(ValueError, match=f"`index` must be whole, but {file} is not: .*--overwrite"):
        profs.ImageIndex.load(path)
    build(pictures, embedders[0], path, overwrite=True)
    assert contents(path) == whole


def test_a_link_in_the_index_does_not_find_itself(pictures, embedders, tmp_path):
    elsewhere = tmp_path / "elsewhere.png"
    (pictures / "0/00.png").rename(elsewhere)
    (pictures / "0/00.png").symlink_to(elsewhere)
    index = build(pictures, embedders[0], tmp_path / "index")
    (found,) = index.query([pictures / "0/00.png"], k=3)
    assert "0/00.png" not in [neighbor.name for neighbor in found]
    assert index.position_of(elsewhere) == -1


def test_a_link_that_leads_nowhere_is_named_and_can_be_skipped(pictures, embedders, tmp_path):
    (pictures / "dangling.png").symlink_to(tmp_path / "nowhere.png")
    with pytest.raises(UnreadableImageError, match="dangling.png"):
        build(pictures, embedders[0], tmp_path / "index")
    index = build(pictures, embedders[0], tmp_path / "index", skip_unreadable=True)
    assert len(index) == 40
    assert [name for name, _ in index.unreadable] == ["dangling.png"]
