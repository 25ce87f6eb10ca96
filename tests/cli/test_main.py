"""`python -m profs_tf`, which the console script `profs-tf` runs too."""

import runpy
import sys
from pathlib import Path

import pytest

import profs_tf
from profs_tf.__main__ import COMMANDS, main

FILES = {path.stem for path in Path(profs_tf.__file__).parent.glob("*.py")}


def test_lists_every_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["profs-tf"])
    main()
    printed = capsys.readouterr().out
    assert set(COMMANDS) == FILES - {"__init__", "__main__", "config", "version"}
    assert all(f"  {name} " in printed for name in COMMANDS)


def test_hands_its_arguments_to_the_command(monkeypatch):
    run = []
    monkeypatch.setattr(runpy, "run_module", lambda name, **options: run.append((name, sys.argv[1:])))
    monkeypatch.setattr(sys, "argv", ["profs-tf", "train", "--epochs=3"])
    main()
    assert run == [("profs_tf.train", ["--epochs=3"])]


def test_lists_the_commands_where_it_does_not_know_one(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["profs-tf", "trian"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "`trian` is not a command" in capsys.readouterr().err
