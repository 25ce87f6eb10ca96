"""A cache of decoded and scaled images, in memory or in a memory-mapped file.

N images of side S take 3 N S^2 bytes: 11.8 GB for the 60,000 of SOP at 256 x 256. Each file is decoded once
instead of once per epoch; the images are the same bit for bit.
"""

import dataclasses
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, Optional

import numpy as np
from tqdm import tqdm

from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.decoding import naming_unreadable_files
from profs_tf.inputs.pipeline import evaluation_pipeline
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.utils.checks import check_one_of
from profs_tf.utils.files import expanded, write_once
from profs_tf.utils.memory import free_memory

CACHES = ("auto", "none", "memory", "disk")
# The fraction of the free memory that "auto" uses at most.
_MEMORY_FRACTION = 0.5
_BATCH_SIZE = 32
# Part of the fingerprint: increase it when decoding or scaling gives other images.
_VERSION = 1


def cached(
    image_list: ImageList,
    preprocessing: Preprocessing,
    cache: str = "auto",
    cache_dir: Optional[str] = None,
    progress: bool = False,
) -> ImageList:
    """Returns the list with its images decoded, cropped to their boxes and scaled.

    A list in memory is returned unchanged. Decodes N files, once.

    Args:
        image_list: N images.
        preprocessing: Its `resize` is the side S after scaling; of the rest only `aspect` is used.
        cache: "memory" or "disk"; "auto" means memory if the images need at most half of what is free, else
            the disk if `cache_dir` is given, else "none", which returns the list unchanged.
        cache_dir: Folder of the cache files. A file's name is a fingerprint of the paths, sizes and times of
            the image files and of the scaling: if any of them changes, another file is written. Files may be
            deleted at any time.
        progress: Whether to show a progress bar, if standard error is a terminal.

    Raises:
        ValueError: If an argument is invalid, or memory or disk is too small.
        UnreadableImageError: If a file cannot be read.
    """
    check_one_of("cache", cache, CACHES)
    if cache == "disk" and not cache_dir:
        raise ValueError("`cache_dir` must name a folder for `cache` disk, got none.")
    if image_list.is_in_memory or cache == "none":
        return image_list
    if not preprocessing.resize:
        if cache == "auto":
            return image_list
        raise ValueError(f"`cache` must be none or auto for images of different sizes, got {cache!r}.")
    side = preprocessing.resize
    # The central crop is the whole image.
    scaling = Preprocessing(resize=side, crop=side, aspect=preprocessing.aspect)
    needed = len(image_list) * side * side * 3
    if cache == "auto":
        fits = needed <= _MEMORY_FRACTION * free_memory()
        cache = "memory" if fits else "disk" if cache_dir else "none"
    if cache == "memory":
        pixels = _in_memory(image_list, scaling, needed, progress)
    elif cache == "disk" and cache_dir:
        pixels = _on_disk(image_list, scaling, needed, expanded(cache_dir), progress)
    else:
        return image_list
    return dataclasses.replace(image_list, images=pixels, boxes=None)


def _in_memory(image_list: ImageList, scaling: Preprocessing, needed: int, progress: bool) -> np.ndarray:
    if needed > free_memory():
        raise ValueError(
            f"`cache` memory needs {needed / 2**30:.1f} GB free, got {free_memory() / 2**30:.1f}. "
            "Use disk or none."
        )
    pixels = np.empty([len(image_list), scaling.resize, scaling.resize, 3], np.uint8)
    start = 0
    for batch in _scaled_batches(image_list, scaling, progress):
        pixels[start : start + len(batch)] = batch
        start += len(batch)
    return pixels


def _on_disk(
    image_list: ImageList, scaling: Preprocessing, needed: int, folder: Path, progress: bool
) -> np.ndarray:
    side = scaling.resize
    path = folder / f"{fingerprint(image_list, f'{_VERSION} {side} {scaling.aspect}')}.npy"

    def write(file: BinaryIO) -> None:
        _check_space(folder, needed)
        header = {"descr": "|u1", "fortran_order": False, "shape": (len(image_list), side, side, 3)}
        np.lib.format.write_array_header_1_0(file, header)
        for batch in _scaled_batches(image_list, scaling, progress):
            file.write(batch.data)

    write_once(path, write)
    return load_cached(path, mmap_mode="r")


def load_cached(path: Path, mmap_mode: Optional[Literal["r"]] = None) -> np.ndarray:
    """Loads an array that is kept in a cache; raises ValueError, which names the file, if it is damaged."""
    try:
        return np.load(path, mmap_mode=mmap_mode)
    except (ValueError, EOFError) as error:
        raise ValueError(f"`cache_dir` must hold whole files, got {path}: {error}. Delete it.") from error


def fingerprint(image_list: ImageList, use: str) -> str:
    """Returns a hash that changes with any image or box; of files it reads the sizes and times.

    Args:
        image_list: N images.
        use: What else the hash is to depend on.
    """
    digest = hashlib.sha256(f"{use} {len(image_list)}\n".encode())
    if isinstance(image_list.images, np.ndarray):
        digest.update(f"{image_list.images.shape}".encode())
        digest.update(np.ascontiguousarray(image_list.images).data)
    else:
        for path in image_list.images:
            entry = os.stat(path)
            digest.update(f"{os.path.abspath(path)}\0{entry.st_size}\0{entry.st_mtime_ns}\n".encode())
    if image_list.boxes is not None:
        digest.update(np.ascontiguousarray(image_list.boxes).data)
    return digest.hexdigest()[:32]


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ValueError(
            f"`cache_dir` needs {needed / 2**30:.1f} GB free, {folder} has {free / 2**30:.1f}. "
            "Free some space, or choose another disk."
        )


def _scaled_batches(image_list: ImageList, scaling: Preprocessing, progress: bool) -> Iterator[np.ndarray]:
    disable = None if progress else True
    bar = tqdm(None, f"decode {image_list.name}", len(image_list), unit=" images", disable=disable)
    with naming_unreadable_files(), bar:
        for batch in evaluation_pipeline(image_list, scaling, _BATCH_SIZE).as_numpy_iterator():
            yield batch
            bar.update(len(batch))
