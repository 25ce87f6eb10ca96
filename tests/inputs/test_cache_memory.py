"""How much memory a cache of images takes."""

import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs import cache as image_cache
from profs_tf.inputs.cache import cached
from profs_tf.inputs.pipeline import evaluation_pipeline, train_pipeline
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.sampling.batch_sampler import BatchSampler
from profs_tf.utils.memory import free_memory


def memory(field):
    """Of this process, in bytes: VmHWM, its peak, or RssAnon, what no file backs."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024


def growth(count, cache, folder, walk):
    """Caches images and iterates over them; returns their bytes and the growth of the memory."""
    path = folder / "small.png"
    Image.new("RGB", (8, 8), "red").save(path)
    preprocessing = Preprocessing(resize=256, crop=224)

    def use(count, walk):
        images = ImageList.from_labels([str(path)] * count, np.arange(count) // 2)
        kept = cached(images, preprocessing, cache, folder)
        sampler = BatchSampler(kept.labels, 8, 2)
        for _ in train_pipeline(kept, sampler, preprocessing).take(20):
            pass
        for _ in evaluation_pipeline(kept, preprocessing).take(walk):
            pass
        return kept.images.nbytes, memory("RssAnon")

    use(100, walk=1)
    Path("/proc/self/clear_refs").write_text("5", "ascii")
    before = memory("VmHWM"), memory("RssAnon")
    size, anonymous = use(count, walk)
    return size, memory("VmHWM") - before[0], anonymous - before[1]


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["memory", "disk"])
def test_needs_at_most_a_tenth_more_memory_than_the_images(cache, tmp_path):
    size, peak, anonymous = growth(1400, cache, tmp_path, walk=0)
    assert size > 2**28
    assert peak < 1.1 * size
    if cache == "disk":
        assert anonymous < 0.1 * size


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("cache", ["disk", "memory"])
def test_sixty_thousand_images(cache, tmp_path):
    """As many as SOP has, 11.8 GB, each read once from the cache."""
    needed = 60_000 * 256 * 256 * 3
    free = free_memory() if cache == "memory" else image_cache.shutil.disk_usage(tmp_path).free
    if free < 1.2 * needed:
        pytest.skip(f"needs {1.2 * needed / 2**30:.0f} GB free for {cache}, there are {free / 2**30:.0f}")
    # In a process of its own: pages of another test's file, still mapped, would count as memory used before.
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder, pool:
        size, peak, anonymous = pool.submit(growth, 60_000, cache, Path(folder), -1).result()
    print(f"{cache}: {size / 1e9:.2f} GB, peak {peak / size:.3f} of it, anonymous {anonymous / size:.3f}")
    assert size == needed
    assert peak < 1.1 * size
    assert anonymous < (1.1 if cache == "memory" else 0.1) * size
