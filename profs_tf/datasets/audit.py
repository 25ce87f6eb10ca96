"""What is wrong with a data set's pictures before anything is trained on them: unreadable files, duplicates.

N images; every function costs O(N) besides decoding.
"""

import collections
import hashlib
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Optional

import numpy as np
from PIL import Image
from tqdm import tqdm

from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.decoding import UnreadableImageError, read_image


class Finding(NamedTuple):
    """What was found of one picture.

    Attributes:
        name: the file's path, or the image's position in memory.
        digest: of the file's bytes or the picture's values; None if the file is missing.
        size: (width, height) in pixels as stored; None if unknown.
        mode: Pillow's name of its channels, such as RGB, L (grey), CMYK, RGBA; "" if unknown.
        format: such as JPEG or PNG, by the contents; "memory" for images in memory; "" if unknown.
        problem: why it cannot be read, with its path; None if it can.
    """

    name: str
    digest: Optional[bytes]
    size: Optional[tuple[int, int]]
    mode: str
    format: str
    problem: Optional[str]


def examine(image_list: ImageList, progress: bool = False) -> list[Finding]:
    """Reads every picture, each file once, in as many threads as there are cores; returns N `Finding`."""
    images = image_list.images
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        if isinstance(images, np.ndarray):
            found, number = pool.map(_examine_picture, range(len(images)), images), len(images)
        else:
            paths = list(dict.fromkeys(images))
            found, number = pool.map(_examine_file, paths), len(paths)
        findings = list(tqdm(found, image_list.name, number, unit=" images", disable=not progress))
    if isinstance(images, np.ndarray):
        return findings
    by_path = dict(zip(paths, findings))
    return [by_path[path] for path in images]


def _examine_picture(number: int, picture: np.ndarray) -> Finding:
    digest = hashlib.sha256(np.ascontiguousarray(picture).data).digest()
    height, width = picture.shape[:2]
    return Finding(f"image {number}", digest, (width, height), "RGB", "memory", None)


def _examine_file(path: str) -> Finding:
    try:
        read_image(path)
        problem = None
    except UnreadableImageError as error:
        problem = error.summary
    try:
        encoded = Path(path).read_bytes()
    except OSError:
        return Finding(path, None, None, "", "", problem)
    digest = hashlib.sha256(encoded).digest()
    try:
        with Image.open(io.BytesIO(encoded)) as image:
            return Finding(path, digest, image.size, image.mode, image.format or "", problem)
    # Pillow lets through whatever its parsers raise; the problem was found above already.
    except Exception:
        return Finding(path, digest, None, "", "", problem)


def single_image_classes(image_list: ImageList) -> list[str]:
    """Returns the names of the classes that have one image, in the list's order."""
    return [image_list.class_names[index] for index in np.flatnonzero(image_list.class_sizes == 1)]


def duplicates(findings_by_part: Mapping[str, Sequence[Finding]]) -> list[list[tuple[str, int]]]:
    """Finds pictures that are equal to the byte, within a part or across parts.

    Args:
        findings_by_part: name of the part, such as "train", to its findings.

    Returns:
        A list of groups, each a list of (part, index in the part) in order; groups across parts come first.
        The same file listed twice, with different boxes, is no duplicate.
    """
    places = collections.defaultdict(list)
    for part, findings in findings_by_part.items():
        for index, finding in enumerate(findings):
            if finding.digest is not None:
                places[finding.digest].append((part, index))
    groups = [
        group
        for group in places.values()
        if len({(part, findings_by_part[part][index].name) for part, index in group}) > 1
    ]
    return sorted(groups, key=lambda group: len({part for part, _ in group}) == 1)


def summary(findings: Sequence[Finding]) -> str:
    """Returns the sizes, channels and formats of the pictures in one line."""
    sizes = np.array([finding.size for finding in findings if finding.size])
    if not len(sizes):
        return "no picture has a known size"
    width, height = np.median(sizes, axis=0)
    (least_width, least_height), (most_width, most_height) = sizes.min(axis=0), sizes.max(axis=0)
    return (
        f"width {least_width} to {most_width}, height {least_height} to {most_height}, "
        f"median {width:.0f} x {height:.0f} pixels; {_counts(finding.mode for finding in findings)}; "
        f"{_counts(finding.format for finding in findings)}"
    )


def _counts(values: Iterable[str]) -> str:
    counted = collections.Counter(value for value in values if value)
    return ", ".join(f"{value} {count:,}" for value, count in counted.most_common())
