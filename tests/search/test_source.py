import os

import numpy as np
import pytest

from profs_tf.datasets.image_list import ImageList
from profs_tf.search.source import IndexSource, size_and_mtime, source_of


def test_a_folder_gives_relative_names_and_stamps(pictures, tmp_path):
    (pictures / "dangling.png").symlink_to(tmp_path / "nowhere.png")
    source = source_of(pictures)
    paths = [*sorted(str(path) for path in pictures.rglob("[0-9]*.png")), str(pictures / "dangling.png")]
    assert list(source.images) == paths
    assert list(source.names) == [os.path.relpath(path, pictures) for path in paths]
    assert source.classes is None
    stat = os.stat(paths[3])
    assert source.stamps(slice(3, 4)) == [[source.names[3], stat.st_size, stat.st_mtime_ns, ""]]
    assert source.stamps(slice(40, 41)) == [["dangling.png", 0, 0, ""]]
    assert size_and_mtime(paths[3]) == (stat.st_size, stat.st_mtime_ns)


def test_pictures_in_memory_are_stamped_by_their_content():
    images = np.zeros([3, 4, 4, 3], np.uint8)
    images[2] = 1
    source = source_of(ImageList(images, np.array([0, 1, 1]), ("a", "b")))
    assert source.names == ("a/0", "b/1", "b/2")
    assert source.classes == ("a", "b", "b")
    first, second, third = source.stamps(slice(0, 3))
    assert first[1:] == second[1:] != third[1:]
    assert first[1] == 48


def test_chunks_cover_all_and_most_stay_when_a_picture_is_added():
    names = [f"{number:05}.png" for number in range(9000)]

    def chunks(names):
        source = IndexSource("/r", tuple(names), tuple(names))
        return [tuple(names[part]) for part in source.chunks()]

    before, after = chunks(names), chunks([*names[:4000], "04000a.png", *names[4000:]])
    assert [name for chunk in before for name in chunk] == names
    assert max(map(len, before)) <= 2048
    assert len(set(before) - set(after)) <= 2


def test_names_must_be_utf8_in_a_list_too():
    with pytest.raises(ValueError, match="`images` must have paths in UTF-8"):
        source_of(ImageList.from_labels(["a\udcff.png", "b.png"], [0, 1]))


def test_bounding_boxes_are_refused():
    images = np.zeros([2, 4, 4, 3], np.uint8)
    boxed = ImageList.from_labels(images, [0, 1], boxes=np.ones([2, 4], np.float32))
    with pytest.raises(ValueError, match="`images` must have no bounding boxes"):
        source_of(boxed)
