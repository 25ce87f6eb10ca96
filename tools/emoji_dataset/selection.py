"""Selects the drawings and classes that can be told apart.

Two drawings are *alike* if the root mean square difference of their pixel values, as drawn or with one of
them flipped left to right, is below 4 of 255. Flips count because training flips images at random.
The rules, in this order:

1. A drawing that hardly differs from the white background is left out.
2. Of drawings of one emoji that are alike, the first vendor's is kept.
3. Of two emoji that two or more vendors draw alike (clock faces and arrows that mirror each other, "person"
   and "man" of some activities), the one with more drawings is kept, then the one with lower code points.
4. Two drawings of different emoji that are alike are both left out.
5. An emoji with fewer than 6 drawings left is left out.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from tqdm import tqdm

MIN_VENDORS = 6
_ALIKE_RMS = 4.0
_FAINT_LEVELS, _FAINT_SHARE = 48, 0.02


def is_faint(drawing: np.ndarray) -> bool:
    """Whether fewer than 2 % of the pixels differ from white by more than 48 levels in some channel."""
    return float(np.mean(255 - drawing.min(axis=2).astype(int) > _FAINT_LEVELS)) < _FAINT_SHARE


def select(drawings: dict) -> dict:
    """Applies the rules.

    Args:
        drawings: (code point sequence, vendor) -> uint8 ``[S, S, 3]``, vendors in order of preference.

    Returns:
        The remaining drawings, in the same form and order. O(n^2) time for n drawings.
    """
    kept = {key: drawing for key, drawing in drawings.items() if not is_faint(drawing)}
    alike = alike_pairs(kept)
    for first, second in alike:
        if first[0] == second[0]:
            kept.pop(second, None)
    alike = [pair for pair in alike if pair[0][0] != pair[1][0]]
    dropped = _twins(kept, alike)
    kept = {key: drawing for key, drawing in kept.items() if key[0] not in dropped}
    for pair in [pair for pair in alike if pair[0] in kept and pair[1] in kept]:
        for key in pair:
            kept.pop(key, None)
    sizes = class_sizes(kept)
    return {key: drawing for key, drawing in kept.items() if sizes[key[0]] >= MIN_VENDORS}


def class_sizes(drawings: dict) -> dict:
    """Returns code point sequence -> number of drawings."""
    sizes = defaultdict(int)
    for sequence, _ in drawings:
        sizes[sequence] += 1
    return sizes


def alike_pairs(drawings: dict) -> list:
    """Returns the pairs of keys whose drawings are alike, each pair in the order of ``drawings``.

    Means of blocks of pixels are compared first: they never differ by more than the pixels do. The factor
    1.01 allows for rounding.
    """
    keys = list(drawings)
    pixels = np.stack([drawings[key] for key in keys])
    coarse = pixels.reshape(len(keys), 12, pixels.shape[1] // 12, 12, -1, 3).mean(
        axis=(2, 4), dtype=np.float32
    )
    flat = coarse.reshape(len(keys), -1)
    views = ((pixels, flat), (pixels[:, :, ::-1], coarse[:, :, ::-1].reshape(len(keys), -1)))
    found = set()
    for i in tqdm(range(len(keys)), "compare", unit=" drawings"):
        for view, other in views:
            for j in i + 1 + np.flatnonzero(_mean_square(other[i + 1 :] - flat[i]) < 1.01 * _ALIKE_RMS**2):
                difference = view[j].astype(float) - pixels[i]
                if np.mean(difference**2) < _ALIKE_RMS**2:
                    found.add((i, int(j)))
    return [(keys[i], keys[j]) for i, j in sorted(found)]


def _mean_square(rows: np.ndarray) -> np.ndarray:
    return np.einsum("nd,nd->n", rows, rows) / rows.shape[1]


def _twins(drawings: dict, alike: list) -> set:
    """Returns the code point sequences that rule 3 leaves out."""
    vendors = defaultdict(set)
    for (first, vendor), (second, other_vendor) in alike:
        if vendor == other_vendor:
            vendors[first, second].add(vendor)
    twins_of = defaultdict(set)
    for (first, second), shared in vendors.items():
        if len(shared) >= 2:
            twins_of[first].add(second)
            twins_of[second].add(first)
    sizes = class_sizes(drawings)
    kept = set()
    for sequence in sorted(twins_of, key=lambda s: (-sizes[s], [int(part, 16) for part in s.split("-")])):
        if not twins_of[sequence] & kept:
            kept.add(sequence)
    return set(twins_of) - kept
