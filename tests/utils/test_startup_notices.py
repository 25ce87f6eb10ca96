"""What of the file descriptor of standard error gets through."""

import os

import pytest

from profs_tf.utils.startup_notices import startup_notices_held_back

UNINITIALIZED = "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
LOG = {letter: f"{letter}0000 00:00:1795913205.778882     996 port.cc:153] text\n" for letter in "IWEF"}
OTHER = "Intel MKL: a warning\nInfo\n"


@pytest.mark.parametrize(
    ("level", "shown"),
    [("", "IWEF"), ("no number", "IWEF"), ("0", "IWEF"), ("1", "WEF"), ("2", "EF"), ("3", "F")],
)
def test_lines_below_the_level_are_dropped(level, shown, monkeypatch, capfd):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", level)
    with startup_notices_held_back():
        os.write(2, (UNINITIALIZED + "".join(LOG.values()) + OTHER).encode())
    notice = UNINITIALIZED if shown == "IWEF" else ""
    assert capfd.readouterr().err == notice + "".join(LOG[letter] for letter in shown) + OTHER


def test_what_was_written_before_an_error_gets_through(monkeypatch, capfd):
    def fail():
        os.write(2, LOG["I"].encode() + b"the reason\n")
        raise ImportError

    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    with pytest.raises(ImportError), startup_notices_held_back():
        fail()
    os.write(2, b"afterwards\n")
    assert capfd.readouterr().err == "the reason\nafterwards\n"


def test_a_closed_standard_error_stays_closed(monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    original = os.dup(2)
    os.close(2)
    try:
        with startup_notices_held_back(), pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(2)
    finally:
        os.dup2(original, 2)
        os.close(original)
