import numpy as np
import pytest
from absl import flags
from PIL import Image

from profs_tf.cli import data_flags
from profs_tf.config import Config
from profs_tf.runs.directory import RunFolder


@pytest.fixture
def run(tmp_path):
    """A run on ten classes of two pictures, of which it trains seven."""
    pictures = tmp_path / "pictures"
    for number in range(20):
        folder = pictures / f"class {number // 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full([4, 4, 3], number, np.uint8)).save(folder / f"{number}.png")
    folder = RunFolder(tmp_path / "run")
    folder.create(Config(dataset=f"folder:{pictures}", train_classes="0.7"))
    return folder


def chosen(embedder, *arguments):
    values = flags.FlagValues()
    data_flags.define_with_split(values)
    values(["command", *arguments])
    notes = []
    images, config = data_flags.load_chosen_split(values, embedder, notes.append)
    return images, config, notes


def test_the_run_decides_what_the_flags_leave_open(run):
    images, config, notes = chosen(run.embedder)
    assert images.class_names == ("class 7", "class 8", "class 9")
    assert notes == [f"By the run's configuration: {config.dataset} --train_classes=0.7."]
    assert chosen(run.embedder, "--split=train")[0].num_classes == 7


def test_flags_override_the_run(run):
    images, _, notes = chosen(run.embedder, "--train_classes=0.5")
    assert images.num_classes == 5
    assert "--train_classes=0.5 contradicts the run's 0.7" in notes[1]
    assert chosen(run.embedder, "--dataset=emoji")[1].dataset == "emoji"


def test_without_a_run_the_data_set_is_emoji(tmp_path):
    assert chosen(tmp_path)[1] == chosen(None)[1] == Config()
