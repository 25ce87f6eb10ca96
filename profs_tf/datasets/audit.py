"""Problems of a data set's images, found before training: unreadable files, duplicates, single-image classes.

N images; every function takes O(N) time besides decoding.
"""

import collections
import functools
import hashlib
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, NamedTuple, Optional

import numpy as np
from PIL import Image
from tqdm import tqdm

from profs_tf.datasets.image_list import ImageList


class Finding(NamedTuple):
    """What was found out about one image.

    Attributes:
        name: The file's path, or the image's index in memory.
        digest: Hash of the file's bytes or of the pixels; None if the file is missing.
        size: (width, height) in pixels as stored; None if unknown.
        mode: Pillow's name of the channels, such as RGB, L (gray), CMYK, RGBA; "" if unknown.
        format: Such as JPEG or PNG, by the contents; "memory" for images in memory; "" if unknown.
        problem: Why the file cannot be read, with its path; None if it can.
    """

    name: str
    digest: Optional[bytes]
    size: Optional[tuple[int, int]]
    mode: str
    format: str
    problem: Optional[str]


def examine(
    image_list: ImageList, reading_problem: Callable[[str], Optional[str]], progress: bool = False
) -> list[Finding]:
    """Reads every image, each file once, in as many threads as there are cores.

    Args:
        image_list: N images.
        reading_problem: Function of a path that decodes the file as training does and returns why this fails,
            or None: `inputs.decoding.reading_problem`.
        progress: Whether to show a progress bar, if standard error is a terminal.

    Returns:
        N Findings.
    """
    images = image_list.images
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        if isinstance(images, np.ndarray):
            found, number = pool.map(_examine_pixels, range(len(images)), images), len(images)
        else:
            paths = list(dict.fromkeys(images))
            found, number = pool.map(functools.partial(_examine_file, reading_problem), paths), len(paths)
        disable = None if progress else True
        findings = list(tqdm(found, image_list.name, number, unit=" images", disable=disable))
    if isinstance(images, np.ndarray):
        return findings
    by_path = dict(zip(paths, findings))
    return [by_path[path] for path in images]


def _examine_pixels(index: int, pixels: np.ndarray) -> Finding:
    digest = hashlib.sha256(np.ascontiguousarray(pixels).data).digest()
    height, width = pixels.shape[:2]
    return Finding(f"image {index}", digest, (width, height), "RGB", "memory", None)


def _examine_file(reading_problem: Callable[[str], Optional[str]], path: str) -> Finding:
    problem = reading_problem(path)
    try:
        encoded = Path(path).read_bytes()
    except OSError:
        return Finding(path, None, None, "", "", problem)
    digest = hashlib.sha256(encoded).digest()
    try:
        with Image.open(io.BytesIO(encoded)) as image:
            return Finding(path, digest, image.size, image.mode, image.format or "", problem)
    # Pillow passes on whatever its parsers raise; `problem` reports it already.
    except Exception:
        return Finding(path, digest, None, "", "", problem)


def single_image_classes(image_list: ImageList) -> list[str]:
    """Returns the names of the classes that have one image, in the list's order."""
    return [image_list.class_names[index] for index in np.flatnonzero(image_list.class_sizes == 1)]


def duplicates(findings_by_split: Mapping[str, Sequence[Finding]]) -> list[list[tuple[str, int]]]:
    """Returns the groups of images that are equal byte for byte, within a split or across splits.

    Args:
        findings_by_split: Name of the split, such as "train" -> its findings.

    Returns:
        A list of groups, each a list of (split, index in the split) in order; groups across splits come
        first. A file that is listed twice, with different boxes, is no duplicate.
    """
    occurrences = collections.defaultdict(list)
    for split, findings in findings_by_split.items():
        for index, finding in enumerate(findings):
            if finding.digest is not None:
                occurrences[finding.digest].append((split, index))
    groups = [
        group
        for group in occurrences.values()
        if len({(split, findings_by_split[split][index].name) for split, index in group}) > 1
    ]
    return sorted(groups, key=lambda group: len({split for split, _ in group}) == 1)


def summary(findings: Sequence[Finding]) -> str:
    """Returns the sizes, channels and formats of the images in one line."""
    sizes = np.array([finding.size for finding in findings if finding.size])
    if not len(sizes):
        return "no image has a known size"
    width, height = np.median(sizes, axis=0)
    (min_width, min_height), (max_width, max_height) = sizes.min(axis=0), sizes.max(axis=0)
    return (
        f"width {min_width} to {max_width}, height {min_height} to {max_height}, "
        f"median {width:.0f} x {height:.0f} pixels; {_counts(finding.mode for finding in findings)}; "
        f"{_counts(finding.format for finding in findings)}"
    )


def _counts(values: Iterable[str]) -> str:
    counted = collections.Counter(value for value in values if value)
    return ", ".join(f"{value} {count:,}" for value, count in counted.most_common())
