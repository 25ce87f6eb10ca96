import signal
import subprocess
import sys

import numpy as np
import pytest

from profs_tf.search.chunks import Chunk, ChunkFolder, locked, replacing

HOLDER = """
import pathlib, sys
from profs_tf.search.chunks import locked
with locked(pathlib.Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


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


def test_a_lock_is_held_by_one_process_and_freed_when_it_is_killed(tmp_path):
    lock = tmp_path / "build.lock"
    command = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(ValueError, match="must not be built by two processes at once"), locked(lock):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
    with locked(lock), pytest.raises(ValueError, match="Wait until it ends"), locked(lock):
        pass


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def write(content, error=None):
        with replacing(path) as file:
            file.write(content)
            if error:
                raise error

    with pytest.raises(KeyboardInterrupt):
        write(b"half", KeyboardInterrupt)
    assert path.read_bytes() == b"old"
    write(b"new")
    assert path.read_bytes() == b"new"
