import contextlib
import os
import signal
import sys
import time

import pytest

from profs_tf.cli import command as command_line


def run(monkeypatch, main, *arguments):
    monkeypatch.setattr("sys.argv", ["some_command", *arguments])
    monkeypatch.setattr(command_line, "_start_logging", lambda: None)
    with pytest.raises(SystemExit) as stopped:
        command_line.run(main, lambda values: None, "some_command: for tests")
    return stopped.value.code


@pytest.fixture
def sigint_raises():
    """Python leaves SIGINT ignored if it is started so, as under nohup."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("sigint_raises")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_every_command_with_130_and_no_traceback(number, monkeypatch, capsys):
    before = signal.getsignal(signal.SIGTERM)

    def main(values):
        os.kill(os.getpid(), number)
        time.sleep(5)

    assert run(monkeypatch, main) == 130
    assert capsys.readouterr().err == "\nInterrupted.\n"
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_flag_file_that_is_missing_is_named(monkeypatch, capsys, tmp_path):
    (tmp_path / "outer.flags").write_text("--flagfile=inner.flags\n")
    for file, missing in (
        (tmp_path / "none.flags", f"{tmp_path}/none.flags"),
        (tmp_path / "outer.flags", "inner"),
    ):
        assert run(monkeypatch, None, f"--flagfile={file}") == 2
        shown = capsys.readouterr().err
        assert shown.startswith(
            "some_command: --flagfile must be readable, relative to the working directory"
        )
        assert missing in shown
        assert "No such file" in shown


@contextlib.contextmanager
def closed_output():
    """In a test, not as a fixture: pytest sets the output anew when a test begins."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as closed, contextlib.redirect_stdout(closed):
        yield


def test_a_reader_may_close_the_pipe_before_the_end_of_the_help(monkeypatch):
    monkeypatch.setattr("sys.argv", ["some_command", "--help"])
    monkeypatch.setattr(command_line, "_start_logging", lambda: None)
    with closed_output():
        command_line.run(lambda values: None, lambda values: None, "some_command: for tests")
        # What is written later, as when Python ends, does not fail either.
        print("more", flush=True)


@pytest.mark.parametrize("flush", [False, True])
def test_a_command_ends_quietly_where_its_reader_has_gone(flush, monkeypatch):
    with closed_output():
        assert run(monkeypatch, lambda values: print("found", flush=flush)) == 141
        print("more", flush=True)


def test_what_a_failed_command_printed_is_dropped_where_its_reader_has_gone(monkeypatch):
    def main(values):
        print("found")
        sys.exit(1)

    with closed_output():
        assert run(monkeypatch, main) == 1
        print("more", flush=True)


def test_a_command_may_start_without_an_output(monkeypatch):
    monkeypatch.setattr("sys.argv", ["some_command"])
    monkeypatch.setattr(command_line, "_start_logging", lambda: None)
    with contextlib.redirect_stdout(None):
        command_line.run(lambda values: print("found"), lambda values: None, "some_command: for tests")


def test_another_closed_pipe_is_a_failure(monkeypatch, capfd):
    def main(values):
        raise BrokenPipeError(32, "Broken pipe")

    assert run(monkeypatch, main) == 1
    assert "Broken pipe" in capfd.readouterr().err
