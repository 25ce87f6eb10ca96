"""Finds each vendor's drawing of each emoji: icon names differ among vendors, so the join is by code point.

A code point sequence is written as in ``1f468-200d-1f680``: lower-case hexadecimal, joined by hyphens,
without the variation selector FE0F. Sequences with a skin tone are left out.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tarfile
import unicodedata
from collections import defaultdict
from pathlib import Path

from emoji_dataset.icon_sets import ICON_SETS, SKIPPED_ICONS, IconSet

_FXEMOJI_FILE = Path(__file__).parent / "fxemoji_code_points.txt"
_SKIN_TONES = {"1f3fb", "1f3fc", "1f3fd", "1f3fe", "1f3ff"}


@dataclasses.dataclass(frozen=True)
class Package:
    """The content of one icon set's package.

    Attributes:
        icons: Icon name -> its body and, if they differ from the set's, width, height, left and top.
        size: Default width and height of the set's icons.
        aliases: Icon name -> its other names, without aliases that rotate or flip the icon.
        names: Code point sequence -> icon name; empty if the package has no such table.
    """

    icons: dict
    size: tuple
    aliases: dict
    names: dict

    def code_points(self) -> dict:
        """Returns icon name or alias -> code point sequence, without ambiguous names."""
        found = defaultdict(set)
        for sequence, name in self.names.items():
            for other in (name, *self.aliases.get(name, ())):
                found[other].add(sequence)
        return {name: min(sequences) for name, sequences in found.items() if len(sequences) == 1}


def read_package(icon_set: IconSet, tarball: Path) -> Package:
    """Reads the tarball of an icon set, without hidden (withdrawn) icons."""
    with tarfile.open(tarball) as archive:
        icons, names = (
            json.loads(archive.extractfile(f"package/{part}.json").read()) for part in ("icons", "chars")
        )
    skipped = SKIPPED_ICONS.get(icon_set.vendor, frozenset())
    aliases = defaultdict(list)
    for alias, entry in sorted(icons.get("aliases", {}).items()):
        if set(entry) <= {"parent", "hidden"}:
            aliases[entry["parent"]].append(alias)
    return Package(
        icons={
            name: icon
            for name, icon in sorted(icons["icons"].items())
            if not icon.get("hidden") and name not in skipped
        },
        size=(icons.get("width", 16), icons.get("height", 16)),
        aliases=dict(aliases),
        names={_plain_sequence(sequence): name for sequence, name in sorted(names.items())},
    )


def join_icons(packages: dict) -> dict:
    """Returns vendor -> code point sequence -> icon name.

    Args:
        packages: Vendor -> Package, for every icon set.
    """
    joined = {}
    for icon_set in ICON_SETS:
        package = packages[icon_set.vendor]
        if icon_set.names_from:
            tables = [packages[other].code_points() for other in icon_set.names_from]
            names = _names_by_other_sets(icon_set.vendor, package, tables)
        else:
            names = package.names
        joined[icon_set.vendor] = {
            sequence: name
            for sequence, name in sorted(names.items())
            if name in package.icons and not _SKIN_TONES & set(sequence.split("-"))
        }
    return joined


def _plain_sequence(sequence: str) -> str:
    return "-".join(part for part in sequence.lower().split("-") if part != "fe0f")


def _names_by_other_sets(vendor: str, package: Package, tables: list) -> dict:
    """Resolves icon names by other sets' names, then by the names of the Unicode standard.

    An icon's own name takes precedence over its aliases. A sequence that two icons match equally is left out.
    """
    lookups = [*tables, _unicode_names()]
    names = {}
    if vendor == "fxemoji":
        lookups = [_squashed(table) for table in lookups]
        names = {sequence: name for name, sequence in _fxemoji_code_points().items()}
    resolved = set(names.values())

    def resolve(name: str) -> str:
        key = name.replace("-", "") if vendor == "fxemoji" else name
        return next((table[key] for table in lookups if key in table), "")

    for spellings in (lambda name: (name,), lambda name: package.aliases.get(name, ())):
        claims = defaultdict(set)
        for name in package.icons:
            sequence = next(filter(None, map(resolve, spellings(name))), "")
            if name not in resolved and sequence:
                claims[sequence].add(name)
        for sequence, claimants in claims.items():
            resolved |= claimants
            if sequence not in names and len(claimants) == 1:
                names[sequence] = min(claimants)
    return names


def _fxemoji_code_points() -> dict:
    """Returns icon name -> code point for names that only FxEmojis uses."""
    lines = _FXEMOJI_FILE.read_text("utf-8").splitlines()
    return dict(line.split(" ") for line in lines if not line.startswith("#"))


def _squashed(table: dict) -> dict:
    """Returns the table with hyphens removed from the names, without names that thereby become ambiguous."""
    found = defaultdict(set)
    for name, sequence in table.items():
        found[name.replace("-", "")].add(sequence)
    return {name: min(sequences) for name, sequences in found.items() if len(sequences) == 1}


def _unicode_names() -> dict:
    """Returns name -> code point of the symbols and pictographs that the Unicode standard names."""
    names = {}
    for code in (*range(0x2000, 0x3300), *range(0x1F000, 0x1F9FF)):
        name = unicodedata.name(chr(code), "")
        if name:
            names[re.sub(r"[^a-z0-9]+", "-", name.lower())] = f"{code:04x}"
    return names
