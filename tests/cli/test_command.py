import os
import signal
import time

import pytest

from profs_tf.cli import command as command_line


def run(monkeypatch, main):
    monkeypatch.setattr("sys.argv", ["some_command"])
    monkeypatch.setattr(command_line, "_start_logging", lambda: None)
    with pytest.raises(SystemExit) as stopped:
        command_line.run(main, lambda values: None, "some_command: for tests")
    return stopped.value.code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_every_command_with_130_and_no_traceback(number, monkeypatch, capsys):
    before = signal.getsignal(signal.SIGTERM)

    def main(values):
        os.kill(os.getpid(), number)
        time.sleep(5)

    assert run(monkeypatch, main) == 130
    assert capsys.readouterr().err == "\nInterrupted.\n"
    assert signal.getsignal(signal.SIGTERM) == before
