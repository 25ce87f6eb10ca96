import os

import numpy as np
import pytest
from PIL import Image

import profs_tf as profs
from profs_tf.datasets.image_list import ImageList
from profs_tf.search import writing
from profs_tf.search.storage import IndexFolder
from tests.search.index_files import build, contents, record_embedded


@pytest.fixture
def others(pictures, tmp_path):
    """Five pictures outside of the indexed folder."""
    folder = tmp_path / "others"
    folder.mkdir()
    for number in range(5):
        Image.new("RGB", (9, 9), (50 * number, 255 - 50 * number, 90)).save(folder / f"{number}.png")
    return sorted(folder.iterdir())


def answers(index, k=3):
    """Names and distances of every indexed image's neighbors, by the image's name."""
    found = index.query_indexed(np.arange(len(index)), k=k)
    return {
        name: [(item.name, pytest.approx(item.distance, abs=1e-6)) for item in row]
        for name, row in zip(index.names, found)
    }


def test_added_and_removed_images_are_as_in_an_index_built_of_them(
    pictures, embedders, others, tmp_path, monkeypatch
):
    moved = [pictures / "0/03.png", pictures / "1/04.png"]
    for path in moved:
        path.rename(tmp_path / path.name)
    index = build(pictures, embedders[0], tmp_path / "index")
    for path in moved:
        (tmp_path / path.name).rename(path)
    embedded = record_embedded(monkeypatch)
    index.add(moved, batch_size=3)
    index.add(tmp_path / "others", batch_size=3)
    index.remove(["2/05.png", str(others[1])])
    assert embedded == ["0/03.png", "1/04.png", *map(str, others)]
    assert index.names[-6:] == ("0/03.png", "1/04.png", *(str(others[i]) for i in (0, 2, 3, 4)))
    again = profs.ImageIndex.load(tmp_path / "index")
    assert again.names == index.names
    np.testing.assert_array_equal(again.embeddings, index.embeddings)
    paths = [again.picture(position) for position in range(len(again))]
    listed = ImageList.from_labels(paths, range(len(paths)))
    fresh = build(listed, embedders[0], tmp_path / "fresh")
    by_path = {fresh.picture(i): answer for i, answer in enumerate(answers(fresh).values())}
    for position, found in enumerate(answers(index).values()):
        expected = by_path[index.picture(position)]
        assert [os.path.join(pictures, name) for name, _ in found] == [
            os.path.join(fresh.root, name) for name, _ in expected
        ]
        assert [distance for _, distance in found] == [distance for _, distance in expected]
    assert index.query(others[0], k=1)[0][0].name != str(others[0])
    assert index.query(others[1], k=1)[0][0].distance > 1e-4
    with pytest.raises(ValueError, match="`k` must be <= 42"):
        index.query(others[0], k=43)


def test_a_build_keeps_what_was_added_or_says_what_it_would_lose(pictures, embedders, others, tmp_path):
    index = build(pictures, embedders[0], tmp_path / "index")
    whole = contents(tmp_path / "index")
    index.add(others)
    index.remove("0/00.png")
    with pytest.raises(
        ValueError, match=r"must include what was added to the index, got none of 5, first .*0.png"
    ):
        build(pictures, embedders[0], tmp_path / "index")
    rebuilt = build(pictures, embedders[0], tmp_path / "index", overwrite=True)
    assert rebuilt.names[0] == "0/00.png"
    assert len(contents(tmp_path / "index")) == len(whole)
    build(pictures, embedders[0], tmp_path / "index")
    index = profs.ImageIndex.load(tmp_path / "index")
    np.testing.assert_array_equal(index.embeddings, rebuilt.embeddings)


def test_pictures_in_memory_are_added_with_their_classes(embedders, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (6, 24, 24, 3), np.uint8)
    data = [ImageList(pixels[part], [0, 1, 1], ["cat", "dog"]) for part in (slice(3), slice(3, 6))]
    index = build(data[0], embedders[0], tmp_path / "index")
    index.add(data[1])
    index.remove("dog/1")
    assert index.names == ("cat/0", "dog/2", "cat/3", "dog/4", "dog/5")
    assert index.class_names == ("cat", "dog", "cat", "dog", "dog")
    for position, row in enumerate((0, 2, 3, 4, 5)):
        np.testing.assert_array_equal(index.picture(position), pixels[row])
        assert index.query(pixels[row], k=1)[0][0].position == position


def test_a_writer_killed_midway_leaves_the_old_index(pictures, embedders, others, tmp_path, monkeypatch):
    index = build(pictures, embedders[0], tmp_path / "index")
    index.add(others[:1])
    names, expected = index.names, np.array(index.embeddings)
    steps = ("append_rows", "append_line", "write_manifest")
    for step in steps:
        with monkeypatch.context() as patched:
            done = getattr(writing, step)

            def stop(*arguments, done=done, step=step):
                if step != "write_manifest":
                    done(*arguments)
                raise KeyboardInterrupt

            patched.setattr(writing, step, stop)
            with pytest.raises(KeyboardInterrupt):
                index.add(others[1:])
        old = profs.ImageIndex.load(tmp_path / "index")
        assert old.names == names
        np.testing.assert_array_equal(old.embeddings, expected)
    index.add(others[1:])
    assert profs.ImageIndex.load(tmp_path / "index").names == (*names, *map(str, others[1:]))


def test_the_second_writer_is_refused_and_a_killed_one_holds_nothing(pictures, embedders, others, tmp_path):
    index = build(pictures, embedders[0], tmp_path / "index")
    with IndexFolder(tmp_path / "index").changing():
        for change in (lambda: index.add(others), lambda: index.remove("0/00.png")):
            with pytest.raises(ValueError, match="`index` must not be written by two processes at once"):
                change()
    other = profs.ImageIndex.load(tmp_path / "index")
    other.remove("0/00.png")
    # This one does not know of the other's change, and keeps it.
    index.add(others[:1])
    assert len(index) == 40
    assert index.names[0] == "0/03.png"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda index, others: index.remove("no.png"), "must be names of images in the index, got 'no.png'"),
        (lambda index, others: index.remove([]), "must be names of images in the index, got none"),
        (lambda index, others: index.remove(index.names), "must leave an image in the index, got all 40"),
        (lambda index, others: index.add([others[0]] * 2), "not be in the index, and not twice, got .*0.png"),
        (lambda index, others: index.add(index.picture(0)), "must not be in the index, .* got 0/00.png"),
        (lambda index, others: index.remove([3, "no.png"]), "must be names of images in the index, got 3"),
        (lambda index, others: index.add([]), "`images` must hold at least one picture"),
        (lambda index, others: index.add("no.png"), "`images` must be a folder, or files that exist, got no"),
        (lambda index, others: index.add([b"1.png"]), "`images` must be a folder, paths .* got bytes"),
        (lambda index, others: index.add(None), "`images` must be a folder, paths .* got NoneType"),
        (lambda index, others: index.add([others[0].parent / "no.png"]), "No such file"),
        (
            lambda index, others: index.add(ImageList.from_labels(others, range(5))),
            "must be a folder or paths for an index without classes, got ImageList",
        ),
    ],
)
def test_bad_changes_are_refused_and_leave_the_index(pictures, embedders, others, tmp_path, change, message):
    index = build(pictures, embedders[0], tmp_path / "index")
    before = contents(tmp_path / "index")
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=message):
        change(index, others)
    after = contents(tmp_path / "index")
    assert {name: after[name] for name in before} == before
    assert len(profs.ImageIndex.load(tmp_path / "index")) == 40


def test_a_picture_by_another_path_is_in_the_index_already(pictures, embedders, tmp_path):
    (tmp_path / "link").symlink_to(pictures)
    index = build(tmp_path / "link", embedders[0], tmp_path / "index")
    for path in (pictures / "0/00.png", tmp_path / "link/0/00.png"):
        with pytest.raises(ValueError, match=r"0/00\.png"):
            index.add([path])
    assert len(index) == 40
