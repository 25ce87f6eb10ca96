import signal
import subprocess
import sys
import time

import numpy as np

from profs_tf.search.chunks import Chunk
from profs_tf.search.storage import IndexFolder
from profs_tf.search.table import ImageTable
from profs_tf.search.writing import publish

# Appends rows that hold their own number and removes the first and the last, without end.
WRITER = """
import sys
import numpy as np
from profs_tf.search.chunks import Chunk
from profs_tf.search.storage import IndexFolder
from profs_tf.search.writing import append_images, record_removed
folder = IndexFolder(sys.argv[1])
print("ready", flush=True)
while True:
    with folder.changing() as opened:
        rows = np.arange(len(opened.table.names), len(opened.table.names) + 50)
        columns = {"sizes": [0] * 50, "mtimes_ns": [0] * 50, "classes": None, "chunks": [], "unreadable": []}
        chunk = Chunk(np.repeat(rows[:, None], 64, axis=1).astype(np.float32), [])
        append_images(folder, opened, [chunk], {"names": [str(row) for row in rows], **columns}, None)
    with folder.changing() as opened:
        live = opened.table.live_rows()
        record_removed(folder, opened, [int(live[0]), int(live[-1])])
"""


def test_writers_killed_at_any_moment_leave_a_whole_index_that_the_next_one_continues(tmp_path):
    folder = IndexFolder(tmp_path / "index")
    identity = {"embedder": "", "embedder_sha256": "", "root": ""}
    columns = {"sizes": [0] * 3, "mtimes_ns": [0] * 3, "classes": None, "chunks": [], "unreadable": []}
    chunk = Chunk(np.repeat(np.arange(3, dtype=np.float32)[:, None], 64, axis=1), [])
    with folder.building(identity, overwrite=False):
        publish(folder, identity, ["k"], [chunk], {"names": ["0", "1", "2"], **columns}, None)
    sizes = [3]
    for delay in np.random.default_rng(0).uniform(0.0, 0.3, 5):
        command = [sys.executable, "-c", WRITER, str(folder.path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            time.sleep(delay)
            folder.open()
            process.send_signal(signal.SIGKILL)
        table, embeddings = folder.open()[1:3]
        assert table.names == [str(row) for row in range(len(table.names))]
        assert (embeddings == np.arange(len(table.names))[:, None]).all()
        assert (len(table.names) - 3) % 50 == len(table.removed) % 2 == 0
        sizes.append(len(table.names))
    assert sizes == sorted(sizes)
    assert sizes[-1] > 3


def test_a_picture_that_is_added_again_is_unreadable_for_its_last_reason_or_not_at_all():
    columns = {"names": ["a"], "sizes": [0], "mtimes_ns": [0], "classes": None, "chunks": []}
    built = {**columns, "unreadable": [["b", "cut"], ["c", "empty"]]}
    added = {**columns, "names": ["b"], "unreadable": [["c", "cut"]]}
    table = ImageTable.read(built, [{"added": added}])
    assert table.names == ["a", "b"]
    assert table.unreadable == [["c", "cut"]]
