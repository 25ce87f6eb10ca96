import numpy as np

from profs_tf.search.chunks import Chunk, ChunkFolder


def test_chunks_come_back_as_they_were_written(tmp_path):
    folder = ChunkFolder(tmp_path / "chunks")
    folder.begin({"root": "/pictures"})
    assert folder.is_begun()
    assert folder.identity() is None
    embeddings = np.random.default_rng(0).normal(size=[3, 4]).astype(np.float32)
    folder.write("key", Chunk(embeddings, [[1, "no picture"]]))
    assert folder.has("key")
    assert not folder.has("other")
    found = folder.read("key")
    np.testing.assert_array_equal(found.embeddings, embeddings)
    assert found.unreadable == [[1, "no picture"]]
    assert folder.identity() == {"root": "/pictures"}
    folder.remove()
    assert not folder.path.exists()


def test_a_flipped_bit_is_never_read_as_another_embedding(tmp_path):
    folder = ChunkFolder(tmp_path)
    embeddings = np.random.default_rng(0).normal(size=[3, 4]).astype(np.float32)
    folder.write("key", Chunk(embeddings, []))
    whole = (tmp_path / "key.npz").read_bytes()
    noticed = 0
    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 1 << position % 8
        (tmp_path / "key.npz").write_bytes(flipped)
        if folder.has("key"):
            # Such as a bit of the archive's dates.
            np.testing.assert_array_equal(folder.read("key").embeddings, embeddings)
            assert folder.read("key").unreadable == []
        else:
            noticed += 1
    assert noticed > embeddings.nbytes
