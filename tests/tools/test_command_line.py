"""What the tools print of an error, and the checks of paths that they share."""

import argparse
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import command_line

ARGUMENTS = argparse.Namespace(dataset="wrong", output=Path("x.csv"), allow_partial_data=False)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("`dataset` must be known, got `loss`."), 2, "--dataset must be known, got `loss`."),
        (FileNotFoundError("`path` must be a folder."), 2, "--dataset must be a folder."),
        (ValueError("Pass `allow_partial_data=True`."), 2, "Pass --allow_partial_data."),
        (OSError(28, "No space left on device"), 1, "OSError: [Errno 28] No space left on device"),
    ],
)
def test_an_error_is_one_line_with_the_tool_s_flags(error, code, line, capsys):
    assert command_line.explain(error, "tools/some_tool.py", ARGUMENTS) == code
    assert capsys.readouterr() == ("", f"some_tool: {line}\n")


def test_a_fault_of_the_tool_keeps_its_stack_trace():
    with pytest.raises(KeyError, match="x"):
        command_line.explain(KeyError("x"), "tools/some_tool.py", ARGUMENTS)


def test_inputs_must_exist(tmp_path):
    (tmp_path / "file").touch()
    command_line.check_input_file("grid", tmp_path / "file", "Cure.")
    command_line.check_input_folder("grids", tmp_path, "Cure.")
    for check, name, found in (
        (command_line.check_input_file, "nothing", "which does not exist"),
        (command_line.check_input_file, ".", "a folder"),
        (command_line.check_input_folder, "nothing", "which does not exist"),
        (command_line.check_input_folder, "file", "a file"),
    ):
        path = tmp_path / name
        with pytest.raises(ValueError, match=rf"`grid` must be a \w+, got {path}, {found}\. Cure\."):
            check("grid", path, "Cure.")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_input_file_must_be_readable(tmp_path):
    (tmp_path / "file").touch(mode=0)
    with pytest.raises(ValueError, match="`grid` must be readable, got .*: Permission denied"):
        command_line.check_input_file("grid", tmp_path / "file", "Cure.")


def test_an_output_file_may_be_in_new_folders_but_not_in_a_file(tmp_path):
    (tmp_path / "file").touch()
    command_line.check_output_file("output", tmp_path / "new" / "folder" / "x.csv")
    assert not (tmp_path / "new").exists()
    with pytest.raises(ValueError, match=f"`output` must be a file, got {tmp_path}, a folder"):
        command_line.check_output_file("output", tmp_path)
    path = tmp_path / "file" / "folder" / "x.csv"
    with pytest.raises(NotADirectoryError, match=f"got {path}: {tmp_path / 'file'} is a file"):
        command_line.check_output_file("output", path)
