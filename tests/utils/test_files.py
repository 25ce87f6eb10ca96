import signal
import subprocess
import sys
from pathlib import Path

import pytest

from profs_tf.utils.files import check_no_pattern, expanded, locked, replacing, write_atomically

HOLDER = """
import pathlib, sys
from profs_tf.utils.files import locked
with locked(pathlib.Path(sys.argv[1]), 'index'):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "metrics.json"
    write_atomically(path, "old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*metrics.json'"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_lock_is_held_by_one_process_and_freed_when_it_is_killed(tmp_path):
    lock = tmp_path / "build.lock"
    command = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "locked\n"
        with (
            pytest.raises(ValueError, match="must not be written by two processes at once"),
            locked(lock, "index"),
        ):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
    with locked(lock, "index"), pytest.raises(ValueError, match="Wait until it ends"), locked(lock, "index"):
        pass


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def write(content, error=None):
        with replacing(path) as file:
            file.write(content)
            if error:
                raise error

    with pytest.raises(KeyboardInterrupt):
        write(b"half", KeyboardInterrupt)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    write(b"new")
    assert path.read_bytes() == b"new"


def test_a_leading_tilde_is_the_home_folder_unless_the_user_is_unknown(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert expanded("~/file") == Path("/home/me/file")
    assert expanded(Path("~nobody knows/file")) == Path("~nobody knows/file")


@pytest.mark.parametrize("name", ["r[1]", "r[", "a\\b"])
def test_paths_that_tensorflow_takes_for_patterns_are_refused(name, monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="`output_dir` must have no .* in its path, .* Rename the folder"):
        check_no_pattern("output_dir", tmp_path / name / "run")
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    with pytest.raises(ValueError, match="`output_dir` must have no"):
        check_no_pattern("output_dir", "run")


def test_other_paths_pass():
    check_no_pattern("output_dir", "a b/{c}/d?*#:~ü]")
