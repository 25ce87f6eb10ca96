import numpy as np
import pytest
from PIL import Image

from profs_tf.config import Config
from profs_tf.runs.directory import RunFolder
from profs_tf.runs.factory import hold_out_for_projections, load_data
from profs_tf.runs.split import load_split, run_config_of, split_to_evaluate


@pytest.fixture
def table(tmp_path):
    """A CSV file of ten classes with two pictures each."""
    lines = ["path,label"]
    for number in range(20):
        Image.fromarray(np.full([4, 4, 3], number, np.uint8)).save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png,class {number // 2}")
    (tmp_path / "d.csv").write_text("\n".join(lines) + "\n")
    return f"csv:{tmp_path / 'd.csv'}"


def classes(config, part):
    return [int(name[-1]) for name in load_split(config, part).images.class_names]


def test_an_embedder_in_its_runs_folder_is_evaluated_by_the_runs_split(table, tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create(Config(dataset=table, train_classes="0.7"))
    config, notes = split_to_evaluate(run_config_of(folder.embedder), {"dataset": table})
    assert classes(config, "test") == [7, 8, 9]
    assert classes(config, "train") == [0, 1, 2, 3, 4, 5, 6]
    assert notes == (f"By the run's configuration: {table} --train_classes=0.7.",)
    assert split_to_evaluate(run_config_of(folder.embedder), {}).config == config


def test_a_contradicting_flag_is_followed_and_named(table):
    run = Config(dataset=table, train_classes="0.7")
    config, notes = split_to_evaluate(run, {"dataset": table, "train_classes": "0.5"})
    assert classes(config, "test") == [5, 6, 7, 8, 9]
    assert notes[1] == (
        "--train_classes=0.5 contradicts the run's 0.7: classes it trained on may be called unseen."
    )


def test_one_path_may_be_written_in_two_ways(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config, _ = split_to_evaluate(Config(dataset=table, train_classes="0.7"), {"dataset": "csv:d.csv"})
    assert config.train_classes == "0.7"


def test_another_data_set_is_split_as_its_own(table):
    config, notes = split_to_evaluate(Config(dataset=table, train_classes="0.7"), {"dataset": "emoji"})
    assert config == Config(dataset="emoji")
    assert len(notes) == 1
    assert f"{table} --train_classes=0.7" in notes[0]


def test_classes_that_ccp_holds_out_did_not_train(table):
    run = Config(dataset=table, method="ccp", ccp_validation_classes=0.4)
    config, _ = split_to_evaluate(run, {})
    train, held_out = hold_out_for_projections(run, load_data(run)[0])
    assert (train.num_classes, held_out.num_classes) == (3, 2)
    assert load_split(config, "train").images.class_names == train.class_names
    assert classes(config, "test") == [5, 6, 7, 8, 9]


def test_held_out_classes_are_a_part_of_their_own(table):
    config, _ = split_to_evaluate(Config(dataset=table, validation_classes=0.4), {})
    parts = {part: classes(config, part) for part in ("train", "validation", "test")}
    assert parts["test"] == [5, 6, 7, 8, 9]
    assert len(parts["validation"]) == 2
    assert sorted(parts["train"] + parts["validation"]) == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="`split` validation needs .* --validation_classes=FRACTION"):
        load_split(Config(dataset=table), "validation")


def test_without_a_run_the_flags_say_all(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert run_config_of(tmp_path / "my_embedder") is None
    assert split_to_evaluate(None, {"train_classes": "0.7"}) == (Config(train_classes="0.7"), ())


def test_a_configuration_inside_the_embedder_counts(tmp_path):
    (tmp_path / "config.json").write_text(Config(train_classes="0.7").to_json())
    assert run_config_of(tmp_path) == Config(train_classes="0.7")


def test_a_configuration_of_something_else_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"architectures": []}')
    with pytest.raises(ValueError, match="`embedder` lies with .*unknown names: architectures"):
        run_config_of(tmp_path / "embedder")


def test_classes_of_a_split_column_that_also_train_are_counted(table, tmp_path):
    lines = (tmp_path / "d.csv").read_text().splitlines()
    # Classes 0 to 4 train, 3 to 9 test: 3 and 4 are in both.
    rows = [f"{line},{'train' if int(line[-1]) < 3 else 'test'}" for line in lines[1:]]
    rows = [row.replace("test", "train") if row.startswith(("6.", "8.")) else row for row in rows]
    (tmp_path / "d.csv").write_text("\n".join(["path,label,split", *rows]) + "\n")
    images, num_shared = load_split(Config(dataset=table), "test")
    assert (images.num_classes, num_shared) == (7, 2)
    assert load_split(Config(dataset=table), "train").num_shared_classes == 0
