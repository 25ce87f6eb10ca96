import shutil

import numpy as np
import pytest
from PIL import Image

from profs_tf import check_data
from profs_tf.cli import command as command_line
from tests.commands.run_commands import TRAIN, run_command
from tests.datasets.official_archives import write_cub
from tests.inputs.encoded_images import claiming_size


def save(picture, path, **options):
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(picture).save(path, **options)
    return path


@pytest.fixture
def folder(tmp_path):
    """Four classes, two train and two test, with unreadable files and duplicates."""
    random = np.random.default_rng(0)
    root = tmp_path / "bilder ü"
    root.mkdir()
    for name in "abcd":
        for number in range(3):
            save(random.integers(0, 256, (20, 30, 3), np.uint8), root / name / f"{number}.png")
    shutil.copy(root / "a" / "0.png", root / "d" / "copy of a.png")
    shutil.copy(root / "c" / "1.png", root / "c" / "twice.png")
    for number in range(3):
        (root / "c" / f"{number}.png").unlink()
    (root / "b" / "Kaputt ü.JPG").write_bytes(b"")
    (root / "b" / "large.png").write_bytes(claiming_size("P", "PNG", 14_000))
    gray = random.integers(0, 256, (50, 40), np.uint8)
    save(gray, root / "b" / "gray.jpg")
    shutil.copy(root / "d" / "1.png", root / "a" / "also d.png")
    return root


def run_check(monkeypatch, *arguments):
    """Runs the command in this process; returns its exit code."""
    monkeypatch.setattr("sys.argv", ["check_data", *map(str, arguments)])
    monkeypatch.setattr(command_line, "_start_logging", lambda: None)
    try:
        command_line.run(check_data.main, check_data.define_flags, check_data.USAGE)
    except SystemExit as stopped:
        return stopped.code
    return 0


def section(output, title):
    """The lines below the line that begins with a title, up to the next title."""
    lines = iter(output.splitlines())
    count = next(int(line.rpartition(" ")[2]) for line in lines if line.strip().startswith(title + ":"))
    found = []
    for line in lines:
        if not line.startswith("    "):
            break
        found.append(line.strip())
    assert len(found) == count
    return found


def test_reports_what_would_spoil_training(folder, monkeypatch, capsys):
    assert run_check(monkeypatch, f"--dataset=folder:{folder}") == 1
    output = capsys.readouterr().out
    assert section(output, "unreadable files") == [
        f"{folder}/b/Kaputt ü.JPG: it is empty",
        f"{folder}/b/large.png: it has more than 67,108,864 pixels, scale it down",
    ]
    assert section(output, "classes in both splits") == []
    assert section(output, "groups of exact duplicates") == [
        f"train and test: {folder}/a/0.png (train, a) = {folder}/d/copy of a.png (test, d)",
        f"train and test: {folder}/a/also d.png (train, a) = {folder}/d/1.png (test, d)",
    ]
    assert "train: 10 images of 2 classes" in output
    assert "width 30 to 40, height 20 to 50, median 30 x 20 pixels; RGB 7, L 1; PNG 7, JPEG 1" in output
    assert output.count("classes with one image: 0") == 1
    assert "classes with one image: 1\n    c\n" in output


def test_valid_images_give_exit_code_0_and_a_contact_sheet(folder, tmp_path, monkeypatch, capsys):
    for name in ("Kaputt ü.JPG", "large.png"):
        (folder / "b" / name).unlink()
    sheets = [tmp_path / f"{name}.png" for name in ("one", "same", "other")]
    for sheet, seed in zip(sheets, (1, 1, 2)):
        code = run_check(
            monkeypatch,
            f"--dataset=folder:{folder}",
            "--train_classes=0.5",
            f"--contact_sheet={sheet}",
            f"--seed={seed}",
            "--sheet_classes=3",
        )
        assert code == 0
    assert "train: 8 images of 2 classes" in capsys.readouterr().out
    pixels = [np.asarray(Image.open(sheet)) for sheet in sheets]
    np.testing.assert_array_equal(pixels[0], pixels[1])
    assert pixels[0].shape != pixels[2].shape or (pixels[0] != pixels[2]).any()


def test_the_contact_sheet_shows_the_images(tmp_path, monkeypatch):
    root = tmp_path / "flat"
    root.mkdir()
    colors = {"red": (250, 0, 0), "green": (0, 250, 0), "blue": (0, 0, 250), "cyan": (0, 250, 250)}
    for name, color in colors.items():
        for number in range(2):
            save(np.full((8, 8, 3), color, np.uint8), root / name / f"{number}.png")
    sheet = tmp_path / "sheet.png"
    assert run_check(monkeypatch, f"--dataset=folder:{root}", f"--contact_sheet={sheet}") == 0
    pixels = np.asarray(Image.open(sheet)).astype(int)
    for color in colors.values():
        assert (np.abs(pixels - color).max(axis=-1) == 0).sum() == 2 * 96 * 96


def test_images_in_memory(monkeypatch, capsys):
    assert run_check(monkeypatch, "--dataset=emoji") == 0
    output = capsys.readouterr().out
    assert "train: 4,281 images of 561 classes\n  width 48 to 48" in output
    assert section(output, "unreadable files") == []


def test_classes_in_both_splits_of_a_table_are_listed(folder, monkeypatch, capsys):
    table = folder / "table.csv"
    rows = ["a/0.png,x,train", "a/1.png,y,train", "a/2.png,z,test", "d/0.png,y,test", "d/1.png,x,test"]
    table.write_text("\n".join(["path,label,split", *rows]))
    assert run_check(monkeypatch, f"--dataset=csv:{table}") == 0
    assert section(capsys.readouterr().out, "classes in both splits") == ["x", "y"]


@pytest.mark.parametrize("command", ["train", "check_data"])
def test_folders_of_the_splits_are_recognized(command, folder, tmp_path):
    for name in ("train", "test"):
        shutil.copytree(folder, tmp_path / "data" / name)
    flags = [*TRAIN, f"--output_dir={tmp_path / 'run'}"] if command == "train" else []
    done = run_command(command, f"--dataset=folder:{tmp_path / 'data'}", *flags, expected=2)
    (line,) = (line for line in done.stderr.splitlines() if line.startswith(f"{command}: "))
    assert "hold folders of images themselves: test (4 folders), train (4 folders)." in line
    assert f"use folder:{tmp_path / 'data/train'}, or a CSV file" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--dataset=emoji", "--seed=1"],
            "--seed must be left out without --contact_sheet, got 1.",
        ),
        (["--dataset=nothing"], "--dataset must be one of emoji, cub200"),
        (["--sheet_classes=0"], "--sheet_classes must be >= 1, got 0"),
        (["--seed=-1"], "--seed must be >= 0, got -1"),
        (["--contact=x"], "Unknown command line flag 'contact'"),
    ],
)
def test_usage_errors_are_refused(arguments, message, monkeypatch, capsys):
    assert run_check(monkeypatch, *arguments) == 2
    assert message in capsys.readouterr().err


def test_partial_copies_name_the_flag_only_if_it_helps(tmp_path, monkeypatch, capsys):
    write_cub(tmp_path)
    arguments = ["--dataset=cub200", f"--data_dir={tmp_path}"]
    assert run_check(monkeypatch, *arguments) == 2
    error = capsys.readouterr().err
    assert "must have 5,864 training and 5,924 test images, got 5 and 6. Complete the copy, or use" in error
    assert error.endswith("use what exists: --allow_partial_data.\n")
    assert run_check(monkeypatch, *arguments, "--allow_partial_data") == 0
    for folder in ("101.Bird_100", "200.Bird_199"):
        shutil.rmtree(tmp_path / "images" / folder)
    capsys.readouterr()
    assert run_check(monkeypatch, *arguments, "--allow_partial_data") == 2
    error = capsys.readouterr().err
    assert "got 5 and 0 (6 files are missing, such as" in error
    assert "allow_partial_data" not in error
