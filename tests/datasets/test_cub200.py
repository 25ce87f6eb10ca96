import pytest

from tests.datasets.official_archives import TINY, write_cub


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 1\n", "must have a class for each image .* 1 and 11 lines"),
        ("1 1\n2\n", "must have two columns, got a line with one"),
        ("".join(f"{number} a\n" for number in range(1, 12)), "annotations cannot be read: invalid literal"),
        ("\xff", "annotations cannot be read: 'utf-8' codec"),
    ],
)
def test_corrupt_annotations_are_refused(content, message, tmp_path):
    write_cub(tmp_path)
    (tmp_path / "image_class_labels.txt").write_text(content, "latin-1")
    with pytest.raises(ValueError, match=message) as error:
        TINY["cub200"].load(tmp_path)
    assert str(error.value).startswith(f"CUB-200-2011 in {tmp_path} must be as its archive unpacks, ")
    assert str(error.value).endswith(" Unpack the archive again.")
