import numpy as np
import pytest
from PIL import Image

import profs_tf as profs
from tests.search.index_files import build, contents

pytest.importorskip("faiss", reason="faiss is an extra")


@pytest.fixture
def index(pictures, embedders, tmp_path):
    return build(pictures, embedders[0], tmp_path / "index")


def names(index, **options):
    return [[item.name for item in row] for row in index.query_indexed(range(len(index)), 5, **options)]


@pytest.mark.parametrize("factory", ["HNSW8", "IVF4,Flat", "IVF4,SQ8", "Flat", "PCA4,IVF2,Flat"])
def test_is_kept_on_disk_and_reaches_the_wanted_recall(index, factory):
    report = index.build_faiss(factory, recall=1.0, recall_sample=30)
    assert (report.recall, report.k, report.num_queries) == (1.0, 10, 30)
    assert report.parameter.split("=")[0] == {"H": "efSearch", "F": ""}.get(factory[0], "nprobe")
    assert f"{factory}: Recall@10 100.0% of 30 queries against the exact search" in str(report)
    again = profs.ImageIndex.load(index.path)
    assert again.faiss_factory == factory
    for distance in ("euclidean", "cosine"):
        assert names(again, distance=distance, search="faiss") == names(again, distance=distance)


def test_recall_that_no_setting_reaches_is_reported(index):
    report = index.build_faiss("PQ1x1", recall=1.0)
    assert 0 < report.recall <= report.wanted == 1
    assert report.parameter == ""
    assert "No setting reaches" not in str(report._replace(recall=1.0))
    assert str(report._replace(recall=0.5)).endswith(
        ". No setting reaches 100.0%: choose finer codes, such as SQ8 or Flat"
    )


def test_stays_valid_while_images_are_added_and_removed(index, pictures, tmp_path, embedders):
    index.build_faiss("IVF4,SQ8", recall=1.0)
    file = next((tmp_path / "index").glob("faiss-*"))
    for number in range(3):
        Image.new("RGB", (9, 9), (90 * number, 20, 20)).save(tmp_path / f"{number}.png")
    index.add([tmp_path / f"{number}.png" for number in range(3)])
    index.remove([index.names[7], str(tmp_path / "1.png")])
    again = profs.ImageIndex.load(index.path)
    assert names(again, search="faiss") == names(again) == names(index, search="faiss")
    assert list((tmp_path / "index").glob("faiss-*")) == [file]
    again.build_faiss("Flat")
    assert names(again, search="faiss") == names(again)
    assert len(list((tmp_path / "index").glob("faiss-*"))) == 1


def test_a_build_keeps_it_only_with_its_embeddings(index, pictures, embedders, tmp_path):
    index.build_faiss("Flat")
    whole = contents(tmp_path / "index")
    assert build(pictures, embedders[0], tmp_path / "index").faiss_factory == "Flat"
    assert contents(tmp_path / "index") == whole
    Image.new("RGB", (9, 9)).save(pictures / "0/03.png")
    index = build(pictures, embedders[0], tmp_path / "index")
    assert not list((tmp_path / "index").glob("faiss-*"))
    message = r"`search` must be exact unless .* has a faiss index.*`faiss_factory=HNSW32`"
    with pytest.raises(ValueError, match=message):
        index.query_indexed([0], search="faiss")


def test_a_damaged_file_is_named_and_only_this_search_fails(index, tmp_path):
    index.build_faiss("Flat")
    file = next((tmp_path / "index").glob("faiss-*"))
    content = bytearray(file.read_bytes())
    content[-5] ^= 8
    file.write_bytes(content)
    damaged = profs.ImageIndex.load(index.path)
    assert len(names(damaged)) == 40
    with pytest.raises(ValueError, match=f"`index` must be whole, but {file} is not: its checksum differs"):
        damaged.query_indexed([0], search="faiss")


def test_embeddings_of_any_length_have_one_distance(tmp_path):
    embeddings = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    path = tmp_path / "index"
    index = profs.ImageIndex.from_embeddings(embeddings, [f"{i}" for i in range(50)], path)
    index.build_faiss("Flat", distance="cosine")
    assert names(index, distance="cosine", search="faiss") == names(index, distance="cosine")
    with pytest.raises(ValueError, match="`distance` must be cosine, that of the faiss index, got euclidean"):
        index.query_indexed([0], search="faiss")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recall": 0}, r"`recall` must be in \(0, 1\], got 0"),
        ({"recall_sample": 0}, "`recall_sample` must be a whole number >= 1, got 0"),
        ({"distance": "manhattan"}, "`distance` must be one of euclidean, cosine"),
        ({"recall_sample": 2.5}, "`recall_sample` must be a whole number >= 1, got 2.5"),
        ({"factory": None}, "`factory` must be a text such as 'HNSW32', got None"),
        ({"factory": "IVF4096,Flat"}, "`faiss_factory` must suit 40 embeddings of 8 dimensions"),
    ],
)
def test_bad_use_is_refused(index, options, message):
    with pytest.raises(ValueError, match=message):
        index.build_faiss(**{"factory": "Flat", **options})
    assert index.faiss_factory is None
