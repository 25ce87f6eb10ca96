"""The commands on images that break other tools."""

import io
import json
import re

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageOps

from tests.commands.run_commands import SHORT, TRAIN, run_command

CLASSES = ["a b", "Käse", "Ёлка", "猫", "é\u0301", "z [1] {x} %d #"]
SIZE = (40, 26)


def drawing(number, copy):
    """An image that looks different when rotated, flipped, inverted or without its left half."""
    random = np.random.default_rng([number, copy])
    picture = Image.new("RGB", SIZE, tuple(random.integers(150, 256, 3)))
    draw = ImageDraw.Draw(picture)
    dark = tuple(random.integers(0, 90, 3))
    draw.polygon([(2, 2), (36, 4 + 3 * number), (4, 20 - number)], fill=dark)
    draw.rectangle([24, 18, 36, 22], fill=tuple(random.integers(0, 256, 3)))
    return picture


def encoded(picture, kind, **options):
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def rotated(picture):
    """Stored rotated, with the EXIF orientation that says so."""
    exif = Image.Exif()
    exif[0x112] = 6
    return encoded(picture.rotate(90, expand=True), "JPEG", quality=95, exif=exif.tobytes())


def deep(picture):
    return encoded(Image.fromarray(np.asarray(picture.convert("L")).astype(np.uint16) * 257 + 3), "PNG")


def transparent(picture):
    opacity = Image.new("L", SIZE, 255)
    ImageDraw.Draw(opacity).rectangle([0, 0, 12, 26], fill=60)
    picture = picture.copy()
    picture.putalpha(opacity)
    return encoded(picture, "PNG")


KINDS = {
    "0 plain.jpeg": lambda picture: encoded(picture, "JPEG", quality=95),
    "1 grau ü.jpg": lambda picture: encoded(picture.convert("L"), "JPEG", quality=95),
    "2 cmyk.jpg": lambda picture: encoded(picture.convert("CMYK"), "JPEG", quality=95),
    "3 palette.png": lambda picture: encoded(picture.quantize(16), "PNG"),
    "4 gif.jpg": lambda picture: encoded(picture.quantize(16), "GIF"),
    "5 EXIF.JPG": rotated,
    "6 16 bit.png": deep,
    "7 прозрачный.PNG": transparent,
    "8 tiny.png": lambda picture: encoded(picture.resize((2, 1)), "PNG"),
    "9 png.jpg": lambda picture: encoded(picture, "PNG"),
}


def as_displayed(content):
    """What an image viewer shows, by Pillow alone."""
    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
    if picture.mode.startswith("I"):
        return Image.fromarray(np.rint(np.asarray(picture) / 257).astype(np.uint8)).convert("RGB")
    if picture.mode == "RGBA":
        white = Image.new("RGBA", picture.size, "white")
        return Image.alpha_composite(white, picture).convert("RGB")
    return picture.convert("RGB")


def fill(root, change=lambda content: content):
    for number, name in enumerate(CLASSES):
        (root / name).mkdir(parents=True)
        for copy, (file, make) in enumerate(KINDS.items()):
            (root / name / file).write_bytes(change(make(drawing(number, copy))))
    (root / "nothing").mkdir()
    (root / CLASSES[0] / ".hidden.jpg").write_bytes(b"no picture")
    (root / CLASSES[0] / "Thumbs.db").write_bytes(b"no picture")
    return root


@pytest.fixture(scope="module")
def nasty(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("nasty") / "Bilder ü %s")


@pytest.fixture(scope="module")
def run(nasty, tmp_path_factory):
    """The folder of a short run on these images."""
    folder = tmp_path_factory.mktemp("runs") / "läuft"
    run_command("train", *train_arguments(nasty, folder))
    return folder


def train_arguments(pictures, folder):
    return (f"--dataset=folder:{pictures}", *TRAIN, *SHORT, f"--output_dir={folder}")


def embeddings(run, pictures, folder):
    run_command(
        "evaluate",
        f"--embedder={run / 'embedder'}",
        f"--dataset=folder:{pictures}",
        "--ks=1,2",
        "--noclustering",
        f"--save_embeddings={folder / 'e.npy'}",
        f"--output_json={folder / 'report.json'}",
    )
    return np.load(folder / "e.npy"), json.loads((folder / "report.json").read_text())


def test_training_and_evaluation_agree_and_see_the_right_images(run, nasty, tmp_path):
    found, report = embeddings(run, nasty, tmp_path)
    best = json.loads((run / "metrics.json").read_text())["best"]
    assert {name: report[name] for name in ("recall@1", "recall@2")} == {
        name: pytest.approx(best[name], abs=1e-6) for name in ("recall@1", "recall@2")
    }
    sound = fill(tmp_path / "sound", lambda content: encoded(as_displayed(content), "PNG"))
    expected, _ = embeddings(run, sound, tmp_path)
    assert found.shape == (len(CLASSES) // 2 * len(KINDS), 16)
    # JPEG decoders differ by one gray level; another image is as far away as any.
    distances = np.linalg.norm(found[:, None] - expected[None], axis=-1)
    np.testing.assert_array_equal(distances.argmin(axis=1), np.arange(len(found)))
    others = distances[~np.eye(len(found), dtype=bool)]
    print(f"own {distances.diagonal().max():.5f}, others from {others.min():.5f}")
    assert distances.diagonal().max() < 0.1 * others.min()


def test_check_data_accepts_them(nasty):
    done = run_command("check_data", f"--dataset=folder:{nasty}")
    assert done.stdout.count("unreadable files: 0") == 1
    # Some releases of Pillow call 16 bit gray "I".
    for part in ("L 3", "CMYK 3", "RGBA 3", "I(;16)? 3", "GIF 3", "JPEG 12", "PNG 15", "height 1 to"):
        assert re.search(rf"\b{part}\b", done.stdout), part


def test_check_data_and_training_name_a_truncated_image(tmp_path):
    pictures = fill(tmp_path / "Bilder ü")
    broken = pictures / CLASSES[2] / "0 plain.jpeg"
    broken.write_bytes(broken.read_bytes()[:500])
    done = run_command("check_data", f"--dataset=folder:{pictures}", expected=1)
    assert "Traceback" not in done.stdout + done.stderr
    lines = done.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.strip() == "unreadable files: 1")
    assert lines[at + 1].strip().startswith(f"{broken}: ")
    for cache in ("memory", "none"):
        arguments = train_arguments(pictures, tmp_path / cache)
        done = run_command("train", *arguments, f"--cache={cache}", expected=2)
        (line,) = (line for line in done.stderr.splitlines() if line.startswith("train: "))
        assert line.startswith(f"train: Image files must be readable, got {broken}: ")
        assert "Traceback" not in done.stdout + done.stderr
