"""Runs a command, in a process of its own or in this one, and checks its exit code."""

import importlib
import json
import subprocess
import sys

from profs_tf.cli import command as command_line
from tests.helpers.forked_process import run_forked

STEPS_PER_EPOCH = 20
TRAIN = (
    "--backbone=conv4",
    "--embedding_dim=16",
    "--image_resize=24",
    "--image_shift=2",
    "--batch_size=12",
    "--learning_rate=1e-3",
    "--ks=1,2",
    f"--steps_per_epoch={STEPS_PER_EPOCH}",
    "--epochs=3",
    "--progress=none",
    "--tensorboard=full",
)
# For runs of which only the first steps are looked at.
SHORT = ("--epochs=1", "--steps_per_epoch=5", "--clustering=never", "--tensorboard=none")
# Four of the six classes are in a batch, so mining has a choice.
MINED = ("--method=profs_hncm", "--hard_classes_per_seed=1", "--batch_size=8")


def run_command(name, *arguments, expected=0, **options):
    return as_expected(run_forked("-m", f"profs_tf.{name}", *arguments, **options), expected)


def run_as_typed(name, *arguments, expected=0):
    words = [sys.executable, "-m", f"profs_tf.{name}", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    return as_expected(done, expected)


def run_in_this_process(name, monkeypatch, capsys, *words, expected=0):
    """Runs a command without a new process, which takes seconds to start; returns its output."""
    command = importlib.import_module(f"profs_tf.{name}")
    monkeypatch.setattr("sys.argv", [name, *words])
    monkeypatch.setattr(command_line, "_start_logging", lambda: None)
    code = 0
    try:
        command_line.run(command.main, command.define_flags, command.USAGE)
    except SystemExit as stopped:
        code = stopped.code
    printed = capsys.readouterr()
    assert code == expected, printed
    return printed


def as_expected(done, code):
    assert done.returncode == code, done.stdout + done.stderr
    return done


def run_evaluate(folder, *arguments):
    """Runs the command; returns its report."""
    run_command("evaluate", *arguments, "--ks=1,2", f"--output_json={folder / 'report.json'}")
    return json.loads((folder / "report.json").read_text())
