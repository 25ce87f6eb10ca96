import dataclasses
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("resvg_py")
TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

import build_emoji_dataset as tool  # noqa: E402
from emoji_dataset import draw, icon_sets, join, selection  # noqa: E402

SQUARE = '<path fill="#00f" d="M0 0h10v10H0z"/>'


def make_tarball(path, icons, aliases=None, chars=None, **size):
    content = {
        "icons": {"icons": icons, "aliases": aliases or {}, **size},
        "chars": chars or {},
    }
    with tarfile.open(path, "w:gz") as archive:
        for name, part in content.items():
            data = json.dumps(part).encode()
            entry = tarfile.TarInfo(f"package/{name}.json")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def package(names=(), aliases=None, icons=None):
    icons = icons or {name: {"body": SQUARE} for name in dict(names).values()}
    return join.Package(icons, (10, 10), aliases or {}, dict(names))


def test_a_package_is_read_without_hidden_icons_and_transformed_aliases(tmp_path):
    path = make_tarball(
        tmp_path / "p.tgz",
        {"cat": {"body": SQUARE}, "old": {"body": SQUARE, "hidden": True}, "window": {"body": SQUARE}},
        {"kitty": {"parent": "cat"}, "tac": {"parent": "cat", "hFlip": True}},
        {"1F408-FE0F": "cat"},
        width=12,
        height=14,
    )
    icon_set = next(s for s in icon_sets.ICON_SETS if s.vendor == "twemoji")
    read = join.read_package(icon_set, path)
    assert set(read.icons) == {"cat", "window"}
    assert read.aliases == {"cat": ["kitty"]}
    assert read.names == {"1f408": "cat"}
    assert read.size == (12, 14)
    assert read.code_points() == {"cat": "1f408", "kitty": "1f408"}
    fx = next(s for s in icon_sets.ICON_SETS if s.vendor == "fxemoji")
    assert set(join.read_package(fx, path).icons) == {"cat"}  # its window is another window


def join_with(**overrides):
    packages = {icon_set.vendor: package() for icon_set in icon_sets.ICON_SETS}
    packages.update(overrides)
    return join.join_icons(packages)


def test_sets_with_a_table_are_joined_by_it_without_skin_tones():
    twemoji = package({"1f44d": "thumbs-up", "1f44d-1f3fb": "thumbs-up-light"})
    assert join_with(twemoji=twemoji)["twemoji"] == {"1f44d": "thumbs-up"}


def test_sets_without_a_table_are_joined_by_name_alias_and_the_standards_name():
    twemoji = package({"1f9d1": "person", "1f600": "grinning-face"}, aliases={"person": ["adult"]})
    emojione = package(
        icons={
            name: {"body": SQUARE}
            for name in ("adult", "grinning", "grinning-face", "dizzy-face", "no-such-emoji")
        },
        aliases={"grinning": ["grinning-face"]},
    )
    joined = join_with(twemoji=twemoji, emojione=emojione)["emojione"]
    # The icon's own name counts before another's alias; 1f635 is DIZZY FACE in the standard.
    assert joined == {"1f9d1": "adult", "1f600": "grinning-face", "1f635": "dizzy-face"}


def test_a_sequence_that_two_icons_claim_equally_is_left_out():
    twemoji = package({"1f9d1": "person"}, aliases={"person": ["adult", "human"]})
    emojione = package(icons={"adult": {"body": SQUARE}, "human": {"body": SQUARE}})
    assert join_with(twemoji=twemoji, emojione=emojione)["emojione"] == {}


def test_a_name_for_several_sequences_is_not_used():
    twemoji = package({"1f3cf": "cricket-game", "1f997": "insect"}, aliases={"insect": ["cricket-game"]})
    emojione = package(icons={"cricket-game": {"body": SQUARE}})
    assert join_with(twemoji=twemoji, emojione=emojione)["emojione"] == {}


def test_fxemoji_names_are_joined_without_hyphens_and_by_its_own_table():
    twemoji = package({"1f415": "dog", "1f436": "dog-face", "1f3e0": "house"})
    fxemoji = package(icons={name: {"body": SQUARE} for name in ("dog", "dogside", "ho-use", "bunny")})
    joined = join_with(twemoji=twemoji, fxemoji=fxemoji)["fxemoji"]
    assert joined == {"1f436": "dog", "1f415": "dogside", "1f3e0": "ho-use", "1f430": "bunny"}


def test_the_table_of_fxemoji_names_each_emoji_once():
    pairs = [
        line.split()
        for line in (TOOLS / "emoji_dataset/fxemoji_code_points.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert len(pairs) > 200
    for column in zip(*pairs):
        assert len(set(column)) == len(column)
    for _, code_point in pairs:
        assert chr(int(code_point, 16)).isprintable()


def test_an_icon_is_drawn_on_white_centered_and_in_its_aspect():
    icons = {"wide": {"body": '<path fill="#00f" d="M10 0h20v10H10z"/>', "width": 20, "left": 10}}
    drawn = draw.draw_icon(join.Package(icons, (10, 10), {}, {}), "wide")
    expected = np.full((48, 48, 3), 255, np.uint8)
    expected[12:36] = (0, 0, 255)
    assert drawn.dtype == np.uint8
    np.testing.assert_array_equal(drawn, expected)


def drawing(seed):
    coarse = np.random.default_rng(seed).integers(0, 256, (12, 12, 3), np.uint8)
    return coarse.repeat(4, axis=0).repeat(4, axis=1)


def make_drawings(sequences, num_vendors):
    return {
        (sequence, vendor): drawing(100 * number + vendor)
        for number, sequence in enumerate(sequences)
        for vendor in range(num_vendors)
    }


def test_unlike_drawings_are_all_kept():
    drawings = make_drawings(["1f600", "1f601"], 6)
    assert selection.select(drawings) == drawings


def test_faint_drawings_are_left_out():
    drawings = make_drawings(["1f600"], 7)
    faint = np.full((48, 48, 3), 255, np.uint8)
    faint[:5, :9] = 200  # 45 of 2304 pixels
    drawings["1f600", 3] = faint
    kept = selection.select(drawings)
    assert list(kept) == [key for key in drawings if key != ("1f600", 3)]
    faint[:, :10] = 210
    assert selection.is_faint(faint)
    faint[:, :10] = 200
    assert not selection.is_faint(faint)


@pytest.mark.parametrize("change", [0, 3])
@pytest.mark.parametrize("mirrored", [False, True])
def test_of_alike_drawings_of_one_emoji_the_first_is_kept(change, mirrored):
    drawings = make_drawings(["1f600"], 7)
    copy = np.minimum(drawings["1f600", 2], 250) + np.uint8(change)
    drawings["1f600", 2] = np.minimum(drawings["1f600", 2], 250)
    drawings["1f600", 5] = copy[:, ::-1] if mirrored else copy
    assert ("1f600", 2) in selection.select(drawings)
    assert ("1f600", 5) not in selection.select(drawings)


def test_a_drawing_that_stands_for_two_emoji_is_left_out_of_both():
    drawings = make_drawings(["1f600", "1f601"], 7)
    drawings["1f601", 4] = drawings["1f600", 4]
    kept = selection.select(drawings)
    assert set(drawings) - set(kept) == {("1f600", 4), ("1f601", 4)}


def test_of_two_emoji_that_two_vendors_draw_alike_one_is_kept():
    drawings = make_drawings(["1f600", "1f601"], 7)
    for vendor in (2, 3):
        drawings["1f601", vendor] = drawings["1f600", vendor][:, ::-1]
    assert {sequence for sequence, _ in selection.select(drawings)} == {"1f600"}
    drawings["1f601", 7] = drawing(99)  # the one with more drawings
    assert {sequence for sequence, _ in selection.select(drawings)} == {"1f601"}


def test_an_emoji_with_few_drawings_is_left_out():
    drawings = {**make_drawings(["1f600"], 6), ("1f601", 0): drawing(7)}
    assert {sequence for sequence, _ in selection.select(drawings)} == {"1f600"}


def test_alike_pairs_agree_with_a_plain_comparison():
    rng = np.random.default_rng(3)
    drawings = make_drawings(["1f600", "1f601", "1f602"], 8)
    keys = list(drawings)
    for _ in range(25):
        source, target = rng.integers(len(keys), size=2)
        noise = rng.normal(0, rng.uniform(1, 7), (48, 48, 3))
        near = np.clip(drawings[keys[source]] + noise, 0, 255).astype(np.uint8)
        drawings[keys[target]] = near[:, ::-1] if rng.random() < 0.5 else near
    expected = []
    for i, first in enumerate(keys):
        for second in keys[i + 1 :]:
            a, b = (drawings[key].astype(float) for key in (first, second))
            if min(np.mean((a - b) ** 2), np.mean((a - b[:, ::-1]) ** 2)) < 16:
                expected.append((first, second))
    assert expected
    assert selection.alike_pairs(drawings) == expected


def test_the_arrays_are_sorted_and_do_not_depend_on_the_order_of_the_drawings():
    names = {
        s.vendor: {"1f600": "grinning", "0030-20e3": "zero", "1f408": "cat"} for s in icon_sets.ICON_SETS
    }
    keys = [(sequence, vendor) for sequence in names["noto"] for vendor in ("fxemoji", "twemoji")]
    drawings = {key: np.full((48, 48, 3), number, np.uint8) for number, key in enumerate(keys)}
    arrays = tool.to_arrays(drawings, names)
    backwards = tool.to_arrays(dict(reversed(drawings.items())), names)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, backwards[name])
    assert arrays["class_code_points"].tolist() == ["0030-20e3", "1f408", "1f600"]
    assert arrays["class_names"].tolist() == ["zero", "cat", "grinning"]
    assert arrays["labels"].tolist() == [0, 0, 1, 1, 2, 2]
    assert arrays["vendor_names"][arrays["vendors"]].tolist() == ["twemoji", "fxemoji"] * 3
    assert arrays["images"][:, 0, 0, 0].tolist() == [3, 2, 5, 4, 1, 0]
    assert sorted(arrays["class_order"]) == [0, 1, 2]


def test_another_tarball_than_the_recorded_one_is_refused(tmp_path):
    icon_set = dataclasses.replace(icon_sets.ICON_SETS[0], sha256=hashlib.sha256(b"right").hexdigest())
    tarball = tmp_path / f"iconify-json-{icon_set.vendor}-{icon_set.version}.tgz"
    tarball.write_bytes(b"right")
    assert tool.fetch(icon_set, tmp_path) == tarball
    tarball.write_bytes(b"wrong")
    with pytest.raises(ValueError, match=r"must have SHA-256 .* got .* Delete it and retry"):
        tool.fetch(icon_set, tmp_path)


def test_without_npm_the_error_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ValueError, match=r"`npm` must be on the PATH.* Install Node.js, or fill --package_dir"
    ):
        tool.fetch(icon_sets.ICON_SETS[0], tmp_path)


def test_help_teaches_and_wrong_flags_are_refused():
    command = [sys.executable, str(TOOLS / "build_emoji_dataset.py")]
    text = subprocess.run(
        [*command, "--help"], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    assert "python tools/build_emoji_dataset.py --package_dir=" in text
    assert "--output" in text
    failed = subprocess.run(
        [*command, "--output=x.zip"], capture_output=True, text=True, check=False, timeout=120
    )
    assert failed.returncode == 2
    assert "`--output` must end in .npz, got 'x.zip'" in failed.stderr
