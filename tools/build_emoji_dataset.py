"""Builds profs_tf/datasets/emoji.npz: a class is a Unicode emoji, an image one vendor's drawing of it.

    python tools/build_emoji_dataset.py
    python tools/build_emoji_dataset.py --package_dir=/tmp/icon_sets --output=/tmp/emoji.npz

The icon sets are npm packages of exact versions, fetched with `npm pack` and verified by their SHA-256; with
--package_dir they are kept there and fetched only once. Icons are joined by code point, drawn at 48 x 48 on
white, and selected by the rules of tools/emoji_dataset/selection.py. The same packages and the same versions
of resvg-py, NumPy and zlib give the same file, byte for byte.

Needs npm on the PATH and `pip install .[datasets]`. Takes some minutes and 400 MB of memory.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from emoji_dataset.draw import draw_icon
from emoji_dataset.icon_sets import ICON_SETS, IconSet
from emoji_dataset.join import join_icons, read_package
from emoji_dataset.selection import MIN_VENDORS, select
from tqdm import tqdm

_DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "profs_tf" / "datasets" / "emoji.npz"


def main() -> None:
    """Builds the file: fetch, join, draw, select, write."""
    arguments = _parse_arguments()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.package_dir or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        packages = {
            icon_set.vendor: read_package(icon_set, fetch(icon_set, folder))
            for icon_set in tqdm(ICON_SETS, "fetch", unit=" packages")
        }
    names = join_icons(packages)
    drawings = select(_draw_all(packages, names))
    arrays = to_arrays(drawings, names)
    np.savez_compressed(arguments.output, **arrays)
    digest = hashlib.sha256(arguments.output.read_bytes()).hexdigest()
    print(
        f"{arguments.output}: {len(arrays['images'])} images of {len(arrays['class_names'])} classes, "
        f"{arguments.output.stat().st_size / 1e6:.1f} MB, SHA-256 {digest}"
    )


def fetch(icon_set: IconSet, folder: Path) -> Path:
    """Returns the icon set's tarball in ``folder``; fetches it from the npm registry if it is missing.

    Raises:
        ValueError: If npm is missing, or the tarball has another SHA-256.
        subprocess.CalledProcessError: If npm fails; it reports on standard error.
    """
    tarball = folder / f"iconify-json-{icon_set.vendor}-{icon_set.version}.tgz"
    if not tarball.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise ValueError("`npm` must be on the PATH, found none. Install Node.js, or fill --package_dir.")
        package = f"{icon_set.package}@{icon_set.version}"
        subprocess.run([npm, "pack", "--silent", package], cwd=folder, stdout=subprocess.DEVNULL, check=True)
    digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
    if digest != icon_set.sha256:
        raise ValueError(
            f"`{tarball}` must have SHA-256 {icon_set.sha256}, got {digest}. Delete it and retry."
        )
    return tarball


def to_arrays(drawings: dict, names: dict) -> dict:
    """Returns the arrays of the file.

    Args:
        drawings: (Code point sequence, vendor) -> uint8 ``[48, 48, 3]``.
        names: Vendor -> code point sequence -> icon name.
    """
    sequences = sorted({sequence for sequence, _ in drawings}, key=_by_code_points)
    vendors = [icon_set.vendor for icon_set in ICON_SETS]
    keys = sorted(drawings, key=lambda key: (_by_code_points(key[0]), vendors.index(key[1])))
    class_index = {sequence: index for index, sequence in enumerate(sequences)}
    return {
        "images": np.stack([drawings[key] for key in keys]),
        "labels": np.array([class_index[sequence] for sequence, _ in keys], np.int64),
        "vendors": np.array([vendors.index(vendor) for _, vendor in keys], np.int64),
        "vendor_names": np.array(vendors),
        "class_names": np.array([_class_name(sequence, names) for sequence in sequences]),
        "class_code_points": np.array(sequences),
        "class_order": np.array(shuffled_classes(sequences), np.int64),
        "sources": np.array([icon_set.source for icon_set in ICON_SETS]),
    }


def shuffled_classes(sequences: list) -> list:
    """Returns the class indices sorted by the SHA-256 of their code points, a fixed shuffle.

    The first half are the training classes.
    """
    digests = [hashlib.sha256(sequence.encode()).hexdigest() for sequence in sequences]
    return sorted(range(len(sequences)), key=digests.__getitem__)


def _draw_all(packages: dict, names: dict) -> dict:
    """Returns (code point sequence, vendor) -> drawing for every emoji that enough vendors draw."""
    counts = {}
    for table in names.values():
        for sequence in table:
            counts[sequence] = counts.get(sequence, 0) + 1
    wanted = [
        (sequence, vendor)
        for sequence in sorted(counts, key=_by_code_points)
        if counts[sequence] >= MIN_VENDORS
        for vendor in names
        if sequence in names[vendor]
    ]
    return {
        (sequence, vendor): draw_icon(packages[vendor], names[vendor][sequence])
        for sequence, vendor in tqdm(wanted, "draw", unit=" icons")
    }


def _by_code_points(sequence: str) -> list:
    return [int(part, 16) for part in sequence.split("-")]


def _class_name(sequence: str, names: dict) -> str:
    return next(table[sequence] for table in names.values() if sequence in table)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=_DEFAULT_OUTPUT,
        help="the .npz file to write (default: the one in the package)",
    )
    parser.add_argument(
        "--package_dir",
        type=Path,
        help="folder that keeps the fetched packages (default: a temporary one)",
    )
    arguments = parser.parse_args()
    if arguments.output.suffix != ".npz":
        parser.error(f"`--output` must end in .npz, got {str(arguments.output)!r}.")
    return arguments


if __name__ == "__main__":
    main()
