import logging
import os

import pytest

from profs_tf import datasets
from profs_tf.datasets import folder as folder_module


def make(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"x")


def relative(image_list, root):
    return [os.path.relpath(path, root) for path in image_list.images]


@pytest.fixture
def pictures(tmp_path):
    root = tmp_path / "my pictures"
    make(
        root,
        "robin/1.JPG",
        "robin/old/Zwei 2.Png",
        "robin/old/.hidden.jpg",
        "robin/.cache/3.jpg",
        "größe é/b.jpeg",
        "größe é/a.gif",
        "größe é/notes.txt",
        "größe é/c.tiff",
        "wren/x.bmp",
        "wren/deep/er/y.jpg",
        ".git/z.jpg",
        "stray.jpg",
        "readme.md",
    )
    (root / "empty").mkdir()
    (root / "only text").mkdir()
    make(root, "only text/a.txt")
    return root


def test_sub_folders_are_classes_and_the_rest_is_left_out_and_counted(pictures, caplog):
    with caplog.at_level(logging.WARNING):
        images = datasets.list_folder(pictures)
    assert images.class_names == ("größe é", "robin", "wren")
    assert relative(images, pictures) == [
        "größe é/a.gif",
        "größe é/b.jpeg",
        "robin/1.JPG",
        "robin/old/Zwei 2.Png",
        "wren/deep/er/y.jpg",
        "wren/x.bmp",
    ]
    assert images.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert images.name == "my pictures"
    assert caplog.messages == [
        f"{pictures}: left out (2 empty class folders, 3 hidden, 4 not pictures, "
        "1 pictures outside any class folder)."
    ]


def test_nothing_is_logged_when_nothing_is_left_out(tmp_path, caplog):
    make(tmp_path, "a/1.jpg", "b/2.jpg")
    datasets.list_folder(tmp_path)
    assert not caplog.messages


def test_the_order_of_the_file_system_does_not_matter(pictures, monkeypatch):
    straight = datasets.list_folder(pictures)
    listdir, walk = os.listdir, os.walk

    def walk_backwards(*args, **kwargs):
        for parent, folders, names in walk(*args, **kwargs):
            folders.reverse()
            yield parent, folders, names[::-1]

    monkeypatch.setattr(folder_module.os, "listdir", lambda path: listdir(path)[::-1])
    monkeypatch.setattr(folder_module.os, "walk", walk_backwards)
    backwards = datasets.list_folder(pictures)
    assert backwards.images == straight.images
    assert backwards.labels.tolist() == straight.labels.tolist()


def test_linked_folders_are_followed_but_not_in_circles(tmp_path):
    make(tmp_path, "elsewhere/1.jpg", "data/b/2.jpg")
    (tmp_path / "data/a").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data/b/again").symlink_to(tmp_path / "data/b")
    images = datasets.list_folder(tmp_path / "data")
    assert relative(images, tmp_path / "data") == ["a/1.jpg", "b/2.jpg"]


def test_the_split_is_by_class(pictures):
    with pytest.raises(ValueError, match="at least 4 classes to split, got 3"):
        datasets.from_folder(pictures)
    make(pictures, "finch/1.jpg")
    train, test = datasets.from_folder(pictures)
    assert (train.class_names, test.class_names) == (("finch", "größe é"), ("robin", "wren"))
    train, test = datasets.load(f"folder:{pictures}", train_classes=["wren", "finch"])
    assert (train.class_names, test.class_names) == (("finch", "wren"), ("größe é", "robin"))


def test_no_folder_and_no_picture_are_refused(tmp_path):
    with pytest.raises(
        NotADirectoryError, match="`path` must be a folder with a sub-folder .* got .*missing"
    ):
        datasets.from_folder(tmp_path / "missing")
    make(tmp_path, "a.jpg", "text/b.txt")
    with pytest.raises(
        ValueError, match=r"got none in .* \(1 empty class folders, 1 not pictures, 1 pictures"
    ):
        datasets.from_folder(tmp_path)


def test_all_pictures_are_listed_at_any_depth_without_classes(pictures):
    found = [os.path.relpath(path, pictures) for path in folder_module.list_pictures(pictures)]
    assert found == [
        "größe é/a.gif",
        "größe é/b.jpeg",
        "robin/1.JPG",
        "robin/old/Zwei 2.Png",
        "stray.jpg",
        "wren/deep/er/y.jpg",
        "wren/x.bmp",
    ]


def test_a_folder_without_pictures_is_refused(pictures):
    with pytest.raises(ValueError, match=r"`path` must have pictures .* got none in .*\(1 not pictures\)"):
        folder_module.list_pictures(pictures / "only text")
    with pytest.raises(NotADirectoryError, match="`path` must be a folder with pictures"):
        folder_module.list_pictures(pictures / "nowhere")
