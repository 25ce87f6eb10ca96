import json
import sys

import numpy as np
import pytest

from profs_tf.shards.formats import Rows, check_format, write_parquet


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_parquet_gives_back_what_was_written(dtype, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    embeddings = (np.random.default_rng(0).normal(size=[3, 4]) * 50).astype(dtype)
    rows = Rows(["a ü", "b", "c"], ["cup", "", "cup"], ["0", "1", "2"], embeddings)
    about = {"dtype": dtype, "scale": 0.5}
    assert write_parquet(tmp_path, "part-00000", rows, about) == ["part-00000.parquet"]
    # What readers of a folder must skip.
    (tmp_path / "_manifest.json").write_text("{}")
    table = parquet.read_table(tmp_path)
    assert table.column_names == ["name", "label", "checksum", "embedding"]
    assert table["name"].to_pylist() == rows.names
    assert table["label"].to_pylist() == ["cup", None, "cup"]
    read = np.stack(table["embedding"].combine_chunks().to_numpy(zero_copy_only=False))
    assert read.dtype == dtype
    np.testing.assert_array_equal(read, embeddings)
    assert json.loads(table.schema.metadata[b"profs_tf"]) == about


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(
        ValueError, match=r"`format` parquet needs pyarrow, .*pip install 'profs_tf\[parquet\]'"
    ):
        check_format("parquet")
    check_format("npy")
