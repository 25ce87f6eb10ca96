import pytest

from tests.datasets.official_archives import TINY, write_cub


def test_inconsistent_annotations_are_refused(tmp_path):
    write_cub(tmp_path)
    (tmp_path / "image_class_labels.txt").write_text("1 1\n")
    with pytest.raises(ValueError, match="must have a class for each image .* 1 and 11 lines"):
        TINY["cub200"].load(tmp_path)
