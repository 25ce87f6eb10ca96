from profs_tf.config import Config
from profs_tf.runs.paths import with_absolute_paths
from profs_tf.runs.resume import resumed_config


def test_paths_of_the_data_are_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    (tmp_path / "names.txt").touch()
    config = Config(dataset="folder:pics/../birds", data_dir="~/data", train_classes="names.txt")
    found = with_absolute_paths(config)
    assert (found.dataset, found.data_dir) == (f"folder:{tmp_path}/birds", "/home/me/data")
    assert found.train_classes == str(tmp_path / "names.txt")
    assert with_absolute_paths(found) == found


def test_names_and_numbers_stay():
    for config in (Config(), Config(dataset="folder:/data/birds", train_classes="0.7")):
        assert with_absolute_paths(config) == config


def test_a_resumed_run_takes_the_path_as_the_new_run_did(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saved = with_absolute_paths(Config(dataset="csv:birds.csv"))
    assert resumed_config(saved, {"dataset": "csv:birds.csv"}) == saved
    assert resumed_config(saved, {"dataset": f"csv:{tmp_path}/./birds.csv"}) == saved
    old = Config(dataset="csv:birds.csv")
    assert resumed_config(old, {"dataset": "csv:birds.csv"}) == old
