import pytest

from tests.datasets.official_archives import TINY, write_sop


def test_missing_columns_are_refused(tmp_path):
    write_sop(tmp_path)
    (tmp_path / "Ebay_test.txt").write_text("a b c\n1 2 3\n")
    with pytest.raises(ValueError, match=r"must have the columns class_id, path, got \['a'"):
        TINY["sop"].load(tmp_path)


@pytest.mark.parametrize("row", ["1 1 1", "1 x 1 toaster_final/1.JPG"])
def test_corrupt_rows_are_refused(row, tmp_path):
    write_sop(tmp_path)
    with open(tmp_path / "Ebay_test.txt", "a", encoding="utf-8") as file:
        file.write(row + "\n")
    with pytest.raises(ValueError, match="Stanford Online Products in .* cannot be read: .* Unpack"):
        TINY["sop"].load(tmp_path)
