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


def test_sub_folders_are_classes_and_the_rest_is_ignored_and_counted(pictures, caplog):
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
        f"{pictures}: ignored (2 empty class folders, 3 hidden, 1 images outside any class folder, "
        "4 not images)."
    ]


def test_nothing_is_logged_when_nothing_is_ignored(tmp_path, caplog):
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


def test_a_missing_folder_and_one_without_images_are_refused(tmp_path):
    with pytest.raises(
        NotADirectoryError, match="`path` must be a folder with a sub-folder .* got .*missing"
    ):
        datasets.from_folder(tmp_path / "missing")
    make(tmp_path, "a.jpg", "text/b.txt")
    with pytest.raises(
        ValueError,
        match=r"got none in .* \(1 empty class folders, 1 images outside any class folder, 1 not images",
    ):
        datasets.from_folder(tmp_path)


def test_all_images_are_listed_at_any_depth_without_classes(pictures):
    found = [os.path.relpath(path, pictures) for path in folder_module.list_images(pictures)]
    assert found == [
        "größe é/a.gif",
        "größe é/b.jpeg",
        "robin/1.JPG",
        "robin/old/Zwei 2.Png",
        "stray.jpg",
        "wren/deep/er/y.jpg",
        "wren/x.bmp",
    ]


def test_listing_no_images_is_refused(pictures):
    with pytest.raises(ValueError, match=r"`folder` must hold images .* got none in .*\(1 not images\)"):
        folder_module.list_images(pictures / "only text")
    with pytest.raises(NotADirectoryError, match="`folder` must be a folder with images"):
        folder_module.list_images(pictures / "nowhere")


def check_refused(root, got, cure):
    with pytest.raises(ValueError, match="`path` must be a folder with a sub-folder for each class") as error:
        datasets.load(f"folder:{root}")
    assert f"got {root}, whose sub-folders hold folders of images themselves: {got}. If" in str(error.value)
    assert cure in str(error.value)


@pytest.mark.parametrize("names", [("train", "test"), ("Test", "Training", "val")])
def test_folders_of_the_splits_are_no_classes(names, tmp_path):
    # The classes of a classification split are the same in each; those of another split differ.
    for classes in ("abcd", "efgh"):
        for name in names:
            make(tmp_path, *(f"{name}/{c}/{number}.jpg" for c in classes[:3] for number in range(2)))
    counts = ", ".join(f"{name} (6 folders)" for name in sorted(names))
    train = next(name for name in names if name.lower().startswith("train"))
    check_refused(tmp_path, counts, f"use folder:{tmp_path / train}, or a CSV file")
    train, test = datasets.from_folder(tmp_path / train)
    assert train.class_names + test.class_names == ("a", "b", "c", "e", "f", "g")


def test_categories_are_no_classes(tmp_path):
    for category, classes in {"birds": "abc", "cars": "d", "dogs": "ef", "fish": "ghijk"}.items():
        make(tmp_path, *(f"{category}/{c}/deep/1.jpg" for c in classes))
    counts = "birds (3 folders), cars (1 folders), dogs (2 folders), ..."
    check_refused(tmp_path, counts, f"use folder:{tmp_path / 'fish'}, or a CSV file")


def test_the_folder_above_the_class_folders_is_no_class(tmp_path):
    make(tmp_path, *(f"images/{c}/1.jpg" for c in "abcd"), "attributes/a.txt")
    check_refused(tmp_path, "images (4 folders)", f"use folder:{tmp_path / 'images'}, or a CSV file")


def test_the_suggested_folder_lies_below_nested_splits(tmp_path):
    make(tmp_path, *(f"images/{split}/{c}/1.jpg" for split in ("test", "train") for c in "abcd"))
    check_refused(tmp_path, "images (2 folders)", f"use folder:{tmp_path / 'images/train'}, or a CSV file")


@pytest.mark.parametrize(
    "files",
    [
        [f"{c}/{view}/1.jpg" for c in "abcd" for view in ("front", "back")],
        [f"{c}/session {c}/1.jpg" for c in "abcd"],
        ["a/1.jpg", *(f"{c}/{c}{number}/1.jpg" for c in "abcd" for number in range(3))],
        # "train" may be the name of a class.
        ["train/1.jpg", "train/old/2.jpg", "test/1.jpg", "test/older/1.jpg", "query/1.jpg", "val/1.jpg"],
    ],
    ids=["views", "one folder per class", "some images in a class folder", "named as splits"],
)
def test_classes_may_have_sub_folders(files, tmp_path):
    make(tmp_path, *files)
    train, test = datasets.from_folder(tmp_path)
    assert set(train.class_names + test.class_names) == {file.split("/")[0] for file in files}
    assert len(train) + len(test) == len(files)


def test_train_query_and_gallery_split_a_folder(tmp_path, caplog):
    make(tmp_path, "train/a/1.jpg", "train/b/1.jpg", "query/d/1.jpg", "gallery/c/1.jpg", "gallery/d/2.jpg")
    train, test = datasets.load(f"folder:{tmp_path}")
    assert (train.class_names, test.class_names) == (("a", "b"), ("c", "d"))
    assert relative(test, tmp_path) == ["query/d/1.jpg", "gallery/c/1.jpg", "gallery/d/2.jpg"]
    assert test.is_query.tolist() == [True, False, False]
    assert test.labels.tolist() == [1, 0, 1]
    assert not caplog.text
    make(tmp_path, "val/a/2.jpg")
    assert len(datasets.load(f"folder:{tmp_path}")[0]) == len(train)
    assert "ignored beside train, query and gallery: val." in caplog.text
    with pytest.raises(ValueError, match="`train_classes` must be left out for a folder with train, query"):
        datasets.from_folder(tmp_path, 0.5)


def test_what_exists_but_is_no_file_is_none(tmp_path):
    names = (
        "file.jpg",
        "link.jpg",
        "folder.jpg",
        "folder link.jpg",
        "dangling.jpg",
        "circle.jpg",
        "pipe.jpg",
    )
    (tmp_path / "file.jpg").touch()
    (tmp_path / "folder.jpg").mkdir()
    os.mkfifo(tmp_path / "pipe.jpg")
    targets = {"link": "file.jpg", "folder link": "folder.jpg", "dangling": "nothing", "circle": "circle.jpg"}
    for link, target in targets.items():
        (tmp_path / f"{link}.jpg").symlink_to(target)
    paths = [*(tmp_path / name for name in names), tmp_path / "none.jpg", tmp_path / "file.jpg" / "below.jpg"]
    exist = folder_module.files_exist([str(path) for path in paths])
    assert exist.tolist() == [path.name in ("file.jpg", "link.jpg") for path in paths]


def test_what_is_no_file_is_no_image(tmp_path, caplog):
    make(tmp_path, "a/1.jpg", "b/2.jpg")
    os.mkfifo(tmp_path / "a" / "pipe.jpg")
    assert relative(datasets.list_folder(tmp_path), tmp_path) == ["a/1.jpg", "b/2.jpg"]
    assert "ignored (1 not images)" in caplog.text


def test_a_folder_that_cannot_be_listed_is_named(tmp_path, monkeypatch):
    make(tmp_path, "a/1.jpg", "a/below/2.jpg", "b/3.jpg")
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("below"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    message = "Folders of images must be readable, got .*/a/below: Permission denied. Change its permissions"
    for function in (datasets.list_folder, folder_module.list_images):
        with pytest.raises(PermissionError, match=message):
            function(tmp_path)
