import csv
import hashlib
import io
import json
import os
import shutil
import signal

import numpy as np
import pytest
from PIL import Image

from profs_tf.inputs.decoding import UnreadableImageError
from profs_tf.shards import embedding
from profs_tf.shards.job import ShardOptions
from profs_tf.shards.pictures import pictures_in
from profs_tf.shards.writer import write_shards
from tests.helpers.forked_process import run_forked
from tests.shards.tiny import NUM_PICTURES, contents, mean_colors

OPTIONS = ShardOptions(batch_size=3, shard_size=7)
# Kills itself, as kill -9 does, at the given call of os.replace: the moment when a file becomes valid.
KILLED = """
import os, signal, sys
from profs_tf.shards.job import ShardOptions
from profs_tf.shards.pictures import pictures_in
from profs_tf.shards.writer import write_shards
calls, replace = [], os.replace
def replace_or_die(*names):
    calls.append(names)
    if len(calls) == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*names)
os.replace = replace_or_die
write_shards(pictures_in(sys.argv[1]), sys.argv[2], sys.argv[3], ShardOptions(batch_size=3, shard_size=7))
"""
# Of the manifest, twice; then of each of four shards: table, array, sample, record; then of the manifest.
CALLS = 2 + 4 * 4 + 1


def write(pictures, embedder, output, options=OPTIONS, **others):
    return write_shards(pictures_in(pictures), embedder, output, options, **others)


def read_npy(folder):
    """Names, labels, and checksums of all shards, and their embeddings."""
    rows = [
        row
        for path in sorted(folder.glob("*.csv"))
        for row in csv.DictReader(io.StringIO(path.read_text("utf-8"), newline=""))
    ]
    columns = [[row[name] for row in rows] for name in ("name", "label", "checksum")]
    return (*columns, np.concatenate([np.load(path) for path in sorted(folder.glob("*.npy"))]))


def test_shards_hold_what_the_pictures_give(pictures, embedder, tmp_path):
    manifest = write(pictures, embedder, tmp_path / "out")
    names, labels, checksums, embeddings = read_npy(tmp_path / "out")
    paths = sorted(pictures.rglob("*.png"))
    assert names == [str(path.relative_to(pictures)) for path in paths]
    assert labels == [name.split("/")[0] for name in names]
    assert len(set(checksums)) == NUM_PICTURES
    np.testing.assert_allclose(embeddings, mean_colors(paths), atol=1e-3)
    assert [shard["num_images"] for shard in manifest["shards"]] == [7, 7, 7, 1]
    assert manifest["num_embedded"] == NUM_PICTURES
    assert manifest["recall"]["num_images"] == NUM_PICTURES
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        ".lock",
        "_manifest.json",
        *(f"part-0000{number}.{suffix}" for number in range(4) for suffix in ("csv", "npy")),
    }


@pytest.mark.parametrize("call", [4, 12, CALLS])
def test_killed_and_continued_has_the_same_bytes(pictures, embedder, tmp_path, call):
    write(pictures, embedder, tmp_path / "whole")
    done = run_forked("-c", KILLED, pictures, embedder, tmp_path / "parts", call)
    assert done.returncode == -signal.SIGKILL, done.stderr
    manifest = write(pictures, embedder, tmp_path / "parts")
    assert manifest["num_embedded"] == max(0, NUM_PICTURES - 7 * ((call - 3) // 4))
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_changed_pictures_and_damaged_shards_are_embedded_again(pictures, embedder, tmp_path):
    out = tmp_path / "out"
    write(pictures, embedder, out)
    assert write(pictures, embedder, out)["num_embedded"] == 0
    before = contents(out)
    flipped = bytearray(before["part-00001.npy"])
    flipped[-1] ^= 1
    (out / "part-00001.npy").write_bytes(flipped)
    assert write(pictures, embedder, out)["num_embedded"] == 7
    assert contents(out) == before
    path = sorted(pictures.rglob("*.png"))[-1]
    Image.new("RGB", (9, 9), "red").save(path)
    assert write(pictures, embedder, out)["num_embedded"] == 1
    np.testing.assert_allclose(np.load(out / "part-00003.npy"), [[255, 0, 0]], atol=1e-3)


@pytest.mark.parametrize("record", ["{", "[]", "{}"])
def test_a_damaged_record_costs_its_shard(pictures, embedder, tmp_path, record):
    whole, out = tmp_path / "whole", tmp_path / "out"
    write(pictures, embedder, whole)
    shutil.copytree(whole, out)
    manifest = json.loads((out / "_manifest.json").read_text())
    (out / "_manifest.json").write_text(json.dumps({**manifest, "finished": False}))
    (out / "_parts").mkdir()
    (out / "_parts/00001.json").write_text(record)
    assert write(pictures, embedder, out)["num_embedded"] == 7
    assert contents(out)["part-00001.npy"] == contents(whole)["part-00001.npy"]
    for damaged in ("[]", "{}"):
        (out / "_manifest.json").write_text(damaged)
        with pytest.raises(ValueError, match="`output` must have a whole manifest, .* its keys are not"):
            write(pictures, embedder, out)


def test_unreadable_pictures_are_named_and_skipped_only_on_request(pictures, embedder, tmp_path):
    (pictures / "class 1/broken.png").write_bytes(b"no picture")
    (pictures / "class 1/dangling.png").symlink_to(tmp_path / "nowhere.png")
    with pytest.raises(UnreadableImageError, match=r"broken\.png"):
        write(pictures, embedder, tmp_path / "out")
    skipping = OPTIONS._replace(skip_unreadable=True)
    manifest = write(pictures, embedder, tmp_path / "out", skipping)
    found = [pair for shard in manifest["shards"] for pair in shard["unreadable"]]
    assert [name for name, _ in found] == ["class 1/broken.png", "class 1/dangling.png"]
    assert manifest["num_images"] == manifest["recall"]["num_images"] == NUM_PICTURES
    assert manifest["num_embedded"] == NUM_PICTURES - OPTIONS.shard_size  # The refused call wrote a shard.
    names, _, _, embeddings = read_npy(tmp_path / "out")
    np.testing.assert_allclose(embeddings, mean_colors([pictures / name for name in names]), atol=1e-3)
    with pytest.raises(UnreadableImageError, match=r"broken\.png"):
        write(pictures, embedder, tmp_path / "out")


def test_a_picture_that_has_become_readable_is_embedded(pictures, embedder, tmp_path):
    path = next(pictures.rglob("00.png"))
    whole, times = path.read_bytes(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    # Of the same size and time, as a file is that another user has made readable.
    path.write_bytes(bytes(len(whole)))
    os.utime(path, ns=times)
    options = OPTIONS._replace(skip_unreadable=True)
    assert write(pictures, embedder, tmp_path / "out", options)["num_images"] == NUM_PICTURES - 1
    assert write(pictures, embedder, tmp_path / "out", options)["num_embedded"] == 0
    path.write_bytes(whole)
    os.utime(path, ns=times)
    assert write(pictures, embedder, tmp_path / "out", options)["num_images"] == NUM_PICTURES


def test_a_last_batch_without_a_file_is_empty(pictures, embedder, tmp_path):
    (pictures / "z.png").symlink_to(tmp_path / "nowhere.png")
    options = OPTIONS._replace(skip_unreadable=True, batch_size=NUM_PICTURES, shard_size=NUM_PICTURES + 1)
    assert write(pictures, embedder, tmp_path / "out", options)["num_images"] == NUM_PICTURES


def test_a_folder_of_something_else_is_left_as_it_is(pictures, embedder):
    before = contents(pictures.parent)
    with pytest.raises(FileExistsError, match="`output` must be empty or hold shards"):
        write(pictures, embedder, pictures)
    assert contents(pictures.parent) == before
    assert not (pictures / ".lock").exists()


def test_a_shard_of_missing_pictures_alone_is_empty(pictures, embedder, tmp_path):
    for number in range(OPTIONS.shard_size):
        (pictures / f"0{number}.png").symlink_to(tmp_path / "nowhere.png")
    options = OPTIONS._replace(skip_unreadable=True)
    assert write(pictures, embedder, tmp_path / "out", options)["num_embedded"] == NUM_PICTURES
    assert len(np.load(tmp_path / "out/part-00000.npy")) == 0


@pytest.mark.parametrize("skip_unreadable", [False, True])
def test_checksums_are_those_of_what_is_embedded(pictures, embedder, tmp_path, monkeypatch, skip_unreadable):
    if skip_unreadable:
        (pictures / "class 0/0/01.png").write_bytes(b"no picture")
    path = pictures / "class 0" / "0" / "00.gif"
    Image.new("RGB", (8, 8), (10, 200, 30)).save(path)
    content, read_contents = path.read_bytes(), embedding.read_contents

    def read_before_the_change(paths):
        contents = read_contents(paths)
        if path in paths:
            Image.new("RGB", (8, 8), (90, 0, 90)).save(path)
        return contents

    monkeypatch.setattr(embedding, "read_contents", read_before_the_change)
    write(pictures, embedder, tmp_path / "out", OPTIONS._replace(skip_unreadable=skip_unreadable))
    names, _, checksums, embeddings = read_npy(tmp_path / "out")
    at = names.index("class 0/0/00.gif")
    assert checksums[at] == hashlib.sha256(content).hexdigest()
    np.testing.assert_allclose(embeddings[at], [10, 200, 30], atol=1e-3)


def test_other_shards_are_refused_unless_overwritten(pictures, embedder, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    # Of a run that was killed before it began.
    (out / "_manifest.json.part").write_text("{")
    write(pictures, embedder, out)
    with pytest.raises(ValueError, match=r"differs in `recall_sample`\. Choose another folder, or pass"):
        write(pictures, embedder, out, recall_sample=10)
    changed = OPTIONS._replace(dtype="float16", shard_size=9)
    with pytest.raises(
        ValueError, match=r"differs in `dtype` and `shard_size`\. Choose another folder, or pass"
    ):
        write(pictures, embedder, out, changed)
    manifest = json.loads((out / "_manifest.json").read_text())
    (out / "_manifest.json").write_text(json.dumps({**manifest, "embedder_sha256": "another"}))
    with pytest.raises(ValueError, match="differs in the embedder"):
        write(pictures, embedder, out)
    (pictures / "class 0/new.png").write_bytes(next(pictures.rglob("*.png")).read_bytes())
    with pytest.raises(ValueError, match="differs in the embedder and the list of pictures"):
        write(pictures, embedder, out)
    write(pictures, embedder, out, changed, overwrite=True)
    write(pictures, embedder, tmp_path / "fresh", changed)
    assert contents(out) == contents(tmp_path / "fresh")
    with pytest.raises(FileExistsError, match="`output` must be empty or hold shards"):
        write(pictures, embedder, pictures)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float64"}, "`dtype` must be one of float32, float16, int8"),
        ({"format": "csv"}, "`format` must be one of npy, parquet"),
        ({"shard_size": 0}, "`shard_size` must be a whole number >= 1"),
    ],
)
def test_wrong_options_are_refused(change, message, pictures, embedder, tmp_path):
    with pytest.raises(ValueError, match=message):
        write(pictures, embedder, tmp_path / "out", OPTIONS._replace(**change))
    assert not (tmp_path / "out").exists()
