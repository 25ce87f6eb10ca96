import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from profs_tf import datasets
from tests.helpers.forked_process import run_forked

TOOL = Path(__file__).parents[2] / "tools" / "mislabel.py"
sys.path.insert(0, str(TOOL.parent))

import mislabel  # noqa: E402


@pytest.fixture
def pictures(tmp_path):
    for name in "abcd":
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(10):
            Image.new("RGB", (4, 4)).save(tmp_path / "pictures" / name / f"{number}.png")
    return tmp_path / "pictures"


def test_the_share_of_the_training_images_gets_other_classes(pictures, tmp_path):
    table = tmp_path / "runs" / "wrong.csv"
    result = run_forked(TOOL, f"--dataset=folder:{pictures}", "--share=0.3", f"--output={table}")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("6 of 20 training labels are wrong: ")
    right, wrong = datasets.from_folder(pictures), datasets.from_csv(table)
    for one, other, changed in zip(right, wrong, (6, 0)):
        assert one.images == other.images
        assert one.class_names == other.class_names
        assert np.sum(one.labels != other.labels) == changed


def test_queries_and_gallery_stay_so(tmp_path):
    rows = ["path,label,split"]
    for part, count in (("train", 4), ("query", 1), ("gallery", 2)):
        for name in "abcd":
            for number in range(count):
                path = tmp_path / f"{part} {name} {number}.png"
                Image.new("RGB", (4, 4)).save(path)
                rows.append(f"{path},{name},{part}")
    # Queries and gallery alternate, as they may.
    rows[-12:] = rows[-1:-13:-2] + rows[-2:-13:-2]
    table, wrong = tmp_path / "right.csv", tmp_path / "wrong.csv"
    table.write_text("\n".join(rows))
    assert mislabel.main([f"--dataset=csv:{table}", "--share=0.5", f"--output={wrong}"]) == 0
    (_, before), (_, after) = datasets.from_csv(table), datasets.from_csv(wrong)
    assert after.images == before.images
    np.testing.assert_array_equal(after.labels, before.labels)
    np.testing.assert_array_equal(after.is_query, before.is_query)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset=emoji"], "--dataset must be image files, got emoji"),
        (["--dataset=emoji", "--share=1.5"], "--share must be in [0, 1], got 1.5."),
        (["--dataset=emoji", "--seed=-1"], "--seed must be a whole number >= 0, got -1."),
        (["--dataset=wrong"], "--dataset must be one of emoji, cub200, "),
        (
            ["--dataset=folder:nothing"],
            "--dataset must be a folder with a sub-folder for each class, got nothing",
        ),
        (["--dataset=folder:two"], "--dataset needs at least 4 classes to split, got 2 in"),
        (["--dataset=emoji", "--output=two"], "--output must be a file, got two, a folder."),
    ],
)
def test_what_cannot_be_done_is_refused(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        (tmp_path / "two" / name).mkdir(parents=True)
        Image.new("RGB", (4, 4)).save(tmp_path / "two" / name / "0.png")
    assert mislabel.main(["--output=wrong.csv", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"mislabel: {message}")
    assert not (tmp_path / "wrong.csv").exists()


def test_an_existing_file_is_kept_even_if_it_is_the_data_set(tmp_path, capsys):
    table = tmp_path / "x.csv"
    table.write_text("mine")
    assert mislabel.main([f"--dataset=csv:{table}", f"--output={table}"]) == 2
    assert "--output must be a new file, got" in capsys.readouterr().err
    assert table.read_text() == "mine"
