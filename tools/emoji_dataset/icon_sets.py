"""The icon sets that the emoji data set is drawn from: exact versions, licenses, and sources of names."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class IconSet:
    """One vendor's drawings, as an npm package of SVG bodies.

    Attributes:
        vendor: Name of the set, and of the package within the ``@iconify-json`` scope.
        version: Exact version of the package.
        sha256: Checksum of the package's tarball.
        title: Name of the drawings.
        author: Author of the drawings.
        url: Home of the project.
        license: SPDX identifier of the license of the drawings.
        names_from: Empty if the package itself maps code points to names; otherwise the sets that share its
            names, in order of preference.
    """

    vendor: str
    version: str
    sha256: str
    title: str
    author: str
    url: str
    license: str
    names_from: tuple = ()

    @property
    def package(self) -> str:
        """Name of the npm package."""
        return f"@iconify-json/{self.vendor}"

    @property
    def source(self) -> str:
        """One line that credits the drawings."""
        return f"{self.title} ({self.package} {self.version}), {self.author}, {self.license}, {self.url}"


_FLUENT_URL = "https://github.com/microsoft/fluentui-emoji"
_NOTO_URL = "https://github.com/googlefonts/noto-emoji"

# The order is that of the images within a class.
ICON_SETS = (
    IconSet(
        "twemoji",
        "1.2.5",
        "19046dff7d8707ce96212ec86468b36ac5f8e60409629dd13f809265c6d0ebb7",
        "Twemoji",
        "Twitter, Inc. and other contributors",
        "https://github.com/jdecked/twemoji",
        "CC-BY-4.0",
    ),
    IconSet(
        "noto",
        "1.2.9",
        "3e918d88fc945c0bb3d468dbace6f88caef67f01c9f0e7bcae0915a042e8f1ad",
        "Noto Emoji",
        "Google Inc.",
        _NOTO_URL,
        "Apache-2.0",
    ),
    IconSet(
        "noto-v1",
        "1.2.5",
        "2bf62c26c2c2884aa99e90aec942cdaee17a5921f05690694f4978ad4b017c37",
        "Noto Emoji, first version",
        "Google Inc.",
        _NOTO_URL,
        "Apache-2.0",
        names_from=("noto", "twemoji"),
    ),
    IconSet(
        "fluent-emoji",
        "1.2.7",
        "8044210dbf11e016d4de85f15d01a243423bd832457e7e2491df1b751c0e272b",
        "Fluent Emoji",
        "Microsoft Corporation",
        _FLUENT_URL,
        "MIT",
        names_from=("fluent-emoji-flat",),
    ),
    IconSet(
        "fluent-emoji-flat",
        "1.2.6",
        "7d064769dee690815f823bc5bcc511d957198caf9f5edd8dd9c1aa48a6aeb175",
        "Fluent Emoji Flat",
        "Microsoft Corporation",
        _FLUENT_URL,
        "MIT",
    ),
    IconSet(
        "fluent-emoji-high-contrast",
        "1.2.6",
        "0b92d48c90d2200bd499e3cdd09a127ca6a8c8ddefd34c35eb5a1e4994012ae0",
        "Fluent Emoji High Contrast",
        "Microsoft Corporation",
        _FLUENT_URL,
        "MIT",
    ),
    IconSet(
        "fxemoji",
        "1.2.2",
        "f3e72b3c59d05e1db03b7e308d55c0d05bd7ba3f625a90da1b79313c12858eef",
        "FxEmojis (Firefox OS Emoji)",
        "Mozilla Foundation",
        "https://github.com/mozilla/fxemoji",
        "CC-BY-4.0",
        names_from=("twemoji", "noto"),
    ),
    IconSet(
        "emojione",
        "1.2.3",
        "26a14f44284407e8bcde91799388dca2bfd91dbcd55a97f425524a1c5b73610e",
        "EmojiOne 2.3 (continued as EmojiTwo)",
        "EmojiOne and the EmojiTwo contributors",
        "https://github.com/EmojiTwo/emojitwo",
        "CC-BY-4.0",
        names_from=("twemoji", "noto"),
    ),
)

# Drawings that show something else than the other vendors' drawings of this name, or are corrupt.
SKIPPED_ICONS = {"fxemoji": frozenset({"keyboard", "tramcar", "window"})}
