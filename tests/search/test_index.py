import os

import numpy as np
import pytest

import profs_tf as profs
from profs_tf.inputs.decoding import UnreadableImageError
from profs_tf.serving.loaded import SavedEmbedder
from profs_tf.serving.saved_model import embed_with_saved
from tests.search.index_files import build


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
        "build.lock",
        "embeddings",
        "images",
        "index.json",
    ]


def test_an_indexed_picture_does_not_find_itself(pictures, embedders, tmp_path):
    elsewhere = tmp_path / "elsewhere.png"
    (pictures / "0/00.png").rename(elsewhere)
    (pictures / "0/00.png").symlink_to(elsewhere)
    index = build(pictures, embedders[0], tmp_path / "index")
    path = pictures / "1/07.png"
    link = tmp_path / "link.png"
    link.symlink_to(path)
    outside = tmp_path / "copy.png"
    outside.write_bytes(path.read_bytes())
    by_path, by_link, by_copy, by_indexed_link = index.query(
        [str(path), link, outside, pictures / "0/00.png"], k=3
    )
    assert by_path == by_link
    assert by_copy[0].name == "1/07.png"
    assert [item.name for item in by_copy[1:]] == [item.name for item in by_path[:2]]
    assert index.query([path], k=3, exclude_self=False)[0][0].name == "1/07.png"
    np.testing.assert_allclose(
        [item.distance for item in index.query_indexed([index.names.index("1/07.png")], k=3)[0]],
        [item.distance for item in by_path],
        atol=1e-5,
    )
    assert "0/00.png" not in [neighbor.name for neighbor in by_indexed_link]
    assert index.position_of(elsewhere) == -1


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


def test_bad_queries_are_refused(pictures, embedders, tmp_path):
    index = build(pictures, embedders[0], tmp_path / "index")
    for call, message in (
        (lambda: index.query([]), "`queries` must hold at least one query"),
        (lambda: index.query([pictures / "0/00.png"], k=40), "`k` must be <= 39"),
        (lambda: index.query([pictures / "0/00.png"], embedder=embedders[1]), "must be the one of the index"),
        (lambda: index.query_indexed([0], search="guess"), "`search` must be one of exact, faiss"),
        (lambda: index.query_indexed([40]), r"`positions` must be in 0\.\.39"),
        (lambda: index.query_indexed([0.5]), "`positions` must be a flat sequence of integers"),
        (lambda: build(pictures / "0", embedders[0], tmp_path / "index"), "or of the same pictures"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_a_missing_query_is_found_before_the_embedder_is_read(pictures, embedders, tmp_path, monkeypatch):
    index = build(pictures, embedders[0], tmp_path / "index")
    monkeypatch.setattr(
        "profs_tf.search.changes.SavedEmbedder", lambda path: pytest.fail("the embedder was read")
    )
    whole = pictures / "0/00.png"
    for name, reason in (("no.png", "No such file or directory"), ("", "Is a directory")):
        with pytest.raises(UnreadableImageError, match=reason):
            index.query([whole, tmp_path / name])


def test_given_embeddings_are_searched_with_and_without_their_embedder(pictures, embedders, tmp_path):
    built = build(pictures, embedders[0], tmp_path / "built")
    options = {"root": pictures, "class_names": [name[0] for name in built.names]}
    index = profs.ImageIndex.from_embeddings(
        built.embeddings, built.names, tmp_path / "index", embedder=embedders[0], **options
    )
    found = index.query(pictures / "1/07.png", k=3)[0]
    assert [item.name for item in found] == [item.name for item in built.query(pictures / "1/07.png", k=3)[0]]
    assert [item.class_name for item in found] == [item.name[0] for item in found]
    assert index.changed(range(40)) == []
    index.remove("0/00.png")
    assert len(profs.ImageIndex.load(tmp_path / "index")) == 39
    named = profs.ImageIndex.from_embeddings(
        built.embeddings, built.names, tmp_path / "named", embedder=embedders[0], class_names=["a"] * 40
    )
    in_memory = profs.datasets.ImageList.from_labels(np.zeros([1, 20, 30, 3], np.uint8), ["a"])
    with pytest.raises(
        ValueError, match="`images` must be files, as those of the index are, got pictures in"
    ):
        named.add(in_memory)
    alone = profs.ImageIndex.from_embeddings(np.eye(3), ["a", "b", "c"], tmp_path / "alone")
    assert alone.query(np.array([0.9, 0.1, 0.0]), k=1)[0][0].name == "a"
    with pytest.raises(ValueError, match="`index` must know its embedder .*alone"):
        alone.query(pictures / "1/07.png", k=1)


@pytest.mark.parametrize(
    ("embeddings", "names", "error", "message"),
    [
        (np.eye(3), ["a", "b"], ValueError, "`names` must be 3, one an embedding, got 2"),
        (np.eye(2), ["a", "a"], ValueError, "`names` must be different, got 'a' twice"),
        (np.eye(2), [1, 2], ValueError, "`names` must be texts, got 1. Convert them by `str`"),
        (np.full([2, 2], 1e300), ["a", "b"], ValueError, r"`embeddings` must fit float32, got .* 1e\+300"),
        (np.full([2, 2], np.inf), ["a", "b"], ValueError, "`embeddings` must be finite"),
        (np.eye(3), ["a", "b", "c"], FileExistsError, "`path` must be an empty folder, got the index"),
    ],
)
def test_bad_embeddings_are_refused(tmp_path, embeddings, names, error, message):
    profs.ImageIndex.from_embeddings(np.eye(2), ["c", "d"], tmp_path / "index")
    with pytest.raises(error, match=message):
        profs.ImageIndex.from_embeddings(embeddings, names, tmp_path / "index")
