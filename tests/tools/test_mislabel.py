from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from profs_tf import datasets
from tests.helpers.forked_process import run_forked

TOOL = Path(__file__).parents[2] / "tools" / "mislabel.py"


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset=emoji"], "`dataset` must be image files, got emoji"),
        (["--dataset=emoji", "--share=1.5"], "`share` must be in [0, 1], got 1.5."),
    ],
)
def test_what_cannot_be_done_is_refused(arguments, message, tmp_path):
    result = run_forked(TOOL, *arguments, f"--output={tmp_path / 'wrong.csv'}")
    assert result.returncode != 0
    assert message in result.stderr
    assert not (tmp_path / "wrong.csv").exists()
