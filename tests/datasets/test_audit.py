import numpy as np
import pytest
from PIL import Image

from profs_tf.datasets.audit import duplicates, examine, single_image_classes, summary
from profs_tf.datasets.image_list import ImageList


@pytest.fixture
def paths(tmp_path):
    """A gray JPEG, an RGB PNG, a copy of it, a text file and a missing file."""
    Image.new("L", (30, 20), 7).save(tmp_path / "a.jpg")
    Image.new("RGB", (50, 40), "red").save(tmp_path / "b.png")
    (tmp_path / "c.png").write_bytes((tmp_path / "b.png").read_bytes())
    (tmp_path / "d.png").write_text("text")
    return [str(tmp_path / name) for name in ("a.jpg", "b.png", "c.png", "d.png", "e.png")]


def reading_problem(path):
    return f"{path}: bad" if path.endswith(("d.png", "e.png")) else None


def test_files_are_read_once_and_described(paths):
    read = []

    def counting(path):
        read.append(path)
        return reading_problem(path)

    images = ImageList.from_labels([*paths, paths[0]], [0, 0, 1, 1, 2, 2], boxes=[[0, 0, 1, 1]] * 6)
    findings = examine(images, counting)
    assert sorted(read) == paths
    assert [finding.name for finding in findings] == [*paths, paths[0]]
    assert [finding.size for finding in findings] == [(30, 20), (50, 40), (50, 40), None, None, (30, 20)]
    assert [finding.mode for finding in findings] == ["L", "RGB", "RGB", "", "", "L"]
    assert [finding.problem for finding in findings[3:5]] == [f"{path}: bad" for path in paths[3:]]
    assert [finding.digest is None for finding in findings] == [False] * 4 + [True, False]
    assert summary(findings) == (
        "width 30 to 50, height 20 to 40, median 40 x 30 pixels; L 2, RGB 2; JPEG 2, PNG 2"
    )
    assert summary(findings[3:5]) == "no image has a known size"


def test_duplicates_across_splits_come_first(paths):
    # The first two are copies. A file that is listed twice, as with different boxes, is no duplicate, but in
    # both splits it is one; missing files equal no other.
    train = examine(ImageList.from_labels([paths[1], paths[2], paths[0]], [0, 0, 1]), reading_problem)
    test = examine(
        ImageList.from_labels([paths[3], paths[3], paths[4], paths[4]], [0, 0, 1, 1]), reading_problem
    )
    assert duplicates({"train": train, "test": test}) == [[("train", 0), ("train", 1)]]
    assert duplicates({"train": train, "test": [*test, train[2]]}) == [
        [("train", 2), ("test", 4)],
        [("train", 0), ("train", 1)],
    ]


def test_images_in_memory_are_compared_by_their_pixels():
    pixels = np.zeros([3, 4, 6, 3], np.uint8)
    pixels[1] = 1
    findings = examine(ImageList.from_labels(pixels, [0, 0, 1]), reading_problem)
    assert duplicates({"train": findings}) == [[("train", 0), ("train", 2)]]
    assert findings[0][2:] == ((6, 4), "RGB", "memory", None)


def test_single_image_classes():
    images = ImageList.from_labels(["1", "2", "3", "4"], ["b", "a", "c", "b"])
    assert single_image_classes(images) == ["a", "c"]
    assert single_image_classes(images.take([0, 3])) == []
