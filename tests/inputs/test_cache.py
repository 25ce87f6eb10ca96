import dataclasses
import itertools
import os
import re
import signal
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image

from profs_tf.config import Config
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs import cache as image_cache
from profs_tf.inputs.cache import cached
from profs_tf.inputs.decoding import UnreadableImageError
from profs_tf.inputs.pipeline import evaluation_pipeline, train_pipeline
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.runs.resume import resumed_config
from profs_tf.sampling.batch_sampler import BatchSampler
from tests.helpers.forked_process import ForkedProcess

PREPROCESSING = Preprocessing(resize=20, crop=16)


@pytest.fixture
def files(tmp_path):
    """Images of several sizes with boxes, one of them read by Pillow."""
    random = np.random.default_rng(0)
    paths = []
    for number in range(12):
        path = tmp_path / f"bild ü {number}.{'gif' if number == 5 else 'jpg'}"
        Image.fromarray(random.integers(0, 256, (30 + number, 40, 3), np.uint8)).save(path)
        paths.append(str(path))
    boxes = np.tile(np.float32([3, 4, 25, 20]), [12, 1])
    return ImageList(paths, np.arange(12) // 3, list("abcd"), "pictures", boxes)


@pytest.fixture
def no_decoding(monkeypatch):
    def refuse(*_):
        raise AssertionError("decoded again")

    return lambda: monkeypatch.setattr(image_cache, "evaluation_pipeline", refuse)


def cache_files(folder):
    """Without the lock files, which stay: to remove one could let two writers in."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_batches_are_those_without_a_cache(files, tmp_path, monkeypatch):
    sampler = BatchSampler(files.labels, 6, 2, seed=3)
    padded = dataclasses.replace(PREPROCESSING, aspect="pad")

    def batches(images):
        yield from train_pipeline(images, sampler, padded).take(4).as_numpy_iterator()
        yield from evaluation_pipeline(images, padded, 5).as_numpy_iterator()

    expected = list(batches(files))
    for cache, largest_copy in (("memory", 2**28), ("disk", 0)):
        monkeypatch.setattr("profs_tf.inputs.pipeline._LARGEST_COPY", largest_copy)
        kept = cached(files, padded, cache, tmp_path / "cache")
        assert kept.is_in_memory
        assert kept.boxes is None
        assert kept.images.shape == (12, 20, 20, 3)
        assert (kept.name, kept.class_names) == (files.name, files.class_names)
        for plain, fast in itertools.zip_longest(expected, batches(kept)):
            for one, other in zip(plain, fast):
                np.testing.assert_array_equal(one, other)


def test_a_file_is_written_once(files, tmp_path, no_decoding):
    folder = tmp_path / "new" / "cache"
    first = cached(files, PREPROCESSING, "disk", folder)
    no_decoding()
    again = cached(files, PREPROCESSING, "disk", folder)
    np.testing.assert_array_equal(first.images, again.images)
    assert isinstance(again.images.base, np.memmap)
    assert len(cache_files(folder)) == 1


def test_a_damaged_file_is_named(files, tmp_path):
    cached(files, PREPROCESSING, "disk", tmp_path / "cache")
    (name,) = cache_files(tmp_path / "cache")
    path = tmp_path / "cache" / name
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=f"`cache_dir` must hold whole files, got {path}: .*Delete it"):
        cached(files, PREPROCESSING, "disk", tmp_path / "cache")


def test_every_change_of_the_source_is_noticed(files, tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    seen = set()

    def scaled_batches(image_list, scaling, _):
        """The same by Pillow, without building a pipeline each time."""
        for path in image_list.images:
            with Image.open(path) as file:
                yield np.asarray(file.convert("RGB").resize((scaling.resize, scaling.resize)))[None].copy()

    monkeypatch.setattr(image_cache, "_scaled_batches", scaled_batches)

    def check_new(image_list, preprocessing=PREPROCESSING):
        images = cached(image_list, preprocessing, "disk", folder).images
        new = set(cache_files(folder)) - seen
        assert len(new) == 1
        seen.update(new)
        return images

    check_new(files)
    check_new(files, Preprocessing(resize=24, crop=16))
    check_new(files, Preprocessing(resize=PREPROCESSING.resize, crop=8, aspect="pad"))
    moved = files.boxes.copy()
    moved[7] += 1
    check_new(ImageList(files.images, files.labels, files.class_names, boxes=moved))
    check_new(ImageList(files.images, files.labels, files.class_names))
    check_new(files.take(np.arange(11, -1, -1)))
    entry = os.stat(files.images[2])
    replacement = files.images[2] + ".new"
    Image.new("RGB", (40, 32), "red").save(replacement, "JPEG")
    os.replace(replacement, files.images[2])
    os.utime(files.images[2], ns=(entry.st_atime_ns, entry.st_mtime_ns))
    images = check_new(files)  # same time, other size
    assert np.abs(images[2].astype(int) - (254, 0, 0)).max() <= 1
    os.utime(files.images[3], ns=(0, 1))
    check_new(files)  # same size, other time


def test_an_incomplete_file_is_overwritten(files, tmp_path):
    folder = tmp_path / "cache"
    expected = cached(files, PREPROCESSING, "disk", folder).images.copy()
    (name,) = cache_files(folder)
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    (folder / f"{name}.part").write_bytes(content[: len(content) // 2])
    np.testing.assert_array_equal(cached(files, PREPROCESSING, "disk", folder).images, expected)
    assert cache_files(folder) == [name]


WRITER = """
import sys, time
import numpy as np
from profs_tf.inputs import cache as image_cache
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.preprocessing import Preprocessing

scaled_batches = image_cache._scaled_batches

def stalling(*arguments):
    for number, batch in enumerate(scaled_batches(*arguments)):
        if number == 2:
            time.sleep(600)
        yield batch

image_cache._scaled_batches = stalling
paths = sys.argv[2:]
images = ImageList.from_labels(paths, np.arange(len(paths)) // 2)
image_cache.cached(images, Preprocessing(resize=64, crop=64), "disk", sys.argv[1])
"""


@pytest.fixture
def killed_writer(tmp_path):
    """The list and the cache's folder after a process was killed that had written 64 of 99 images."""
    for number, pixels in enumerate(np.random.default_rng(0).integers(0, 256, (3, 30, 40, 3), np.uint8)):
        Image.fromarray(pixels).save(tmp_path / f"{number}.jpg")
    paths = [str(tmp_path / f"{number % 3}.jpg") for number in range(99)]
    folder = tmp_path / "cache"
    process = ForkedProcess("-c", WRITER, folder, *paths)
    try:
        until = time.monotonic() + 120
        while sum(part.stat().st_size for part in folder.glob("*.part")) < 64 * 64 * 64 * 3:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        process.kill()
    process.communicate(30)
    assert process.returncode == -signal.SIGKILL
    (part,) = (path for path in folder.iterdir() if path.suffix != ".lock")
    assert part.suffix == ".part"
    assert part.stat().st_size < 65 * 64 * 64 * 3
    return ImageList.from_labels(paths, np.arange(99) // 2), folder


def test_the_file_of_a_killed_process_is_overwritten_and_changes_are_noticed(killed_writer):
    images, folder = killed_writer
    preprocessing = Preprocessing(resize=64, crop=64)

    def expected():
        (batch,) = evaluation_pipeline(images.take(np.arange(3)), preprocessing, 3).as_numpy_iterator()
        return np.tile(batch, [33, 1, 1, 1])

    kept = cached(images, preprocessing, "disk", folder).images
    np.testing.assert_array_equal(kept, expected())
    (name,) = cache_files(folder)
    assert name.endswith(".npy")
    Image.new("RGB", (40, 30), "red").save(images.images[1])
    changed = cached(images, preprocessing, "disk", folder).images
    np.testing.assert_array_equal(changed, expected())
    assert (changed != kept).any(axis=(1, 2, 3)).tolist() == [False, True, False] * 33


def test_a_running_writer_is_waited_for(files, tmp_path, no_decoding):
    folder = tmp_path / "cache"
    expected = cached(files, PREPROCESSING, "disk", folder).images.copy()
    (name,) = cache_files(folder)
    part = folder / name.replace(".npy", ".part")
    (folder / name).rename(part)
    no_decoding()
    found = []
    with FileLock(part.with_suffix(".lock")):
        waiting = threading.Thread(
            target=lambda: found.append(cached(files, PREPROCESSING, "disk", folder).images)
        )
        waiting.start()
        time.sleep(0.3)
        assert not found
        part.rename(folder / name)
    waiting.join(20)
    np.testing.assert_array_equal(found[0], expected)
    assert cache_files(folder) == [name]


@pytest.mark.parametrize("cache", ["memory", "disk"])
def test_an_unreadable_file_is_named_and_no_cache_file_remains(cache, files, tmp_path):
    with open(files.images[4], "r+b") as file:
        file.truncate(300)
    with pytest.raises(UnreadableImageError, match=re.escape(files.images[4])):
        cached(files, PREPROCESSING, cache, tmp_path / "cache")
    if cache == "disk":
        assert cache_files(tmp_path / "cache") == []


@pytest.mark.parametrize(
    ("free", "folder", "kind"), [(28_800, None, "memory"), (28_799, None, "none"), (28_799, "cache", "disk")]
)
def test_auto_uses_at_most_half_of_the_free_memory(free, folder, kind, files, tmp_path, monkeypatch):
    monkeypatch.setattr(image_cache, "free_memory", lambda: free)
    kept = cached(files, PREPROCESSING, "auto", folder and tmp_path / folder)
    if kind == "none":
        assert kept is files
    else:
        assert isinstance(kept.images.base, np.memmap) == (kind == "disk")


def test_lists_that_need_no_cache_are_returned_unchanged(files):
    in_memory = ImageList(np.zeros([2, 8, 8, 3], np.uint8), [0, 1], ["a", "b"])
    assert cached(in_memory, PREPROCESSING, "memory") is in_memory
    assert cached(files, PREPROCESSING, "none") is files
    assert cached(files, Preprocessing(resize=0, crop=8), "auto") is files


def test_invalid_arguments_are_refused(files, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="`cache` must be one of auto, none, memory, disk, got 'ram'"):
        cached(files, PREPROCESSING, "ram")
    with pytest.raises(ValueError, match="`cache_dir` must name a folder for `cache` disk"):
        cached(files, PREPROCESSING, "disk")
    with pytest.raises(ValueError, match="`cache` must be none or auto for images of different sizes"):
        cached(files, Preprocessing(resize=0, crop=8), "memory")
    monkeypatch.setattr(image_cache, "free_memory", lambda: 14_399)
    with pytest.raises(ValueError, match="`cache` memory needs 0.0 GB free, got 0.0. Use disk"):
        cached(files, PREPROCESSING, "memory")
    monkeypatch.setattr(image_cache.shutil, "disk_usage", lambda _: SimpleNamespace(free=14_399))
    with pytest.raises(ValueError, match="`cache_dir` needs 0.0 GB free, .*cache has 0.0"):
        cached(files, PREPROCESSING, "disk", tmp_path / "cache")


def test_a_resumed_run_may_use_another_cache():
    changed = resumed_config(Config(cache="none"), {"cache": "disk", "cache_dir": "there"})
    assert (changed.cache, changed.cache_dir) == ("disk", "there")
