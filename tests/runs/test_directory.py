import json
from types import SimpleNamespace

import pytest

from profs_tf.config import Config
from profs_tf.runs.directory import RunFolder


def test_creates_and_reads_back(tmp_path):
    folder = RunFolder(tmp_path / "a" / "b ü")
    folder.create(Config(seed=5))
    assert folder.read_config() == Config(seed=5)
    folder.write_metrics({"best": {"recall@1": 0.5}})
    assert json.loads(folder.metrics.read_text()) == {"best": {"recall@1": 0.5}}


def test_a_written_configuration_replaces_the_first(tmp_path):
    folder = RunFolder(tmp_path)
    folder.create(Config(epochs=2))
    folder.write_config(Config(epochs=5))
    assert folder.read_config().epochs == 5
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_an_untrained_run_is_discarded_with_the_folders_it_made(tmp_path):
    folder = RunFolder(tmp_path / "a" / "run")
    folder.create(Config())
    folder.log.write_text("epoch,step\n")
    folder.tensorboard.mkdir()
    folder.discard_unless_trained()
    assert list(tmp_path.iterdir()) == []


def test_discarding_keeps_what_is_not_the_runs(tmp_path):
    (tmp_path / "run").mkdir()
    folder = RunFolder(tmp_path / "run")
    folder.create(Config())
    (tmp_path / "run" / "notes.txt").write_text("x")
    folder.discard_unless_trained()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]
    (tmp_path / "run" / "notes.txt").unlink()
    folder.create(Config())
    folder.discard_unless_trained()
    assert (tmp_path / "run").is_dir()


def test_a_trained_run_and_one_of_another_process_are_never_discarded(tmp_path):
    folder = RunFolder(tmp_path)
    folder.create(Config())
    RunFolder(tmp_path).discard_unless_trained()
    assert folder.config.exists()
    folder.checkpoints.mkdir()
    (folder.checkpoints / "ckpt-2.index").write_bytes(b"x")
    folder.discard_unless_trained()
    assert folder.config.exists()


def test_another_run_is_refused_and_kept(tmp_path):
    RunFolder(tmp_path).create(Config(seed=5))
    with pytest.raises(FileExistsError, match="must not hold another run, got .* by --resume"):
        RunFolder(tmp_path).create(Config(seed=6))
    assert RunFolder(tmp_path).read_config().seed == 5


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(FileExistsError, match="must be empty or new"):
        RunFolder(tmp_path).create(Config())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError, match="must be a folder, got"):
        RunFolder(tmp_path / "file").create(Config())


def test_no_folder_is_refused():
    with pytest.raises(ValueError, match="`output_dir` must name a folder"):
        RunFolder("")


def test_resuming_nothing_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="must hold a run to resume"):
        RunFolder(tmp_path).read_config()


def test_a_full_disk_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=150 * 2**20))
    folder = RunFolder(tmp_path / "not" / "yet")
    folder.check_space(10**6)
    with pytest.raises(ValueError, match="needs about 522 MB free .* has 150 MB"):
        folder.check_space(10**7)


def test_an_unwritable_folder_is_refused():
    with pytest.raises(PermissionError, match="`output_dir` must be writable, got /proc/run: "):
        RunFolder("/proc/run").create(Config())


def test_a_path_at_which_tensorflow_finds_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(ValueError, match="`run_dir` must have no"):
        RunFolder(tmp_path / "r[1]", argument="run_dir")
