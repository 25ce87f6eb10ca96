import io

import pytest

from profs_tf.runs.loop import progress_for_output


@pytest.mark.parametrize(
    ("asked", "to_file", "to_terminal"),
    [("bar", "line", "bar"), ("tqdm", "line", "tqdm"), ("line", "line", "line"), ("none", "none", "none")],
)
def test_bars_become_lines_in_a_file(asked, to_file, to_terminal, monkeypatch):
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert progress_for_output(asked) == to_file
    monkeypatch.setattr("profs_tf.runs.loop.is_interactive", lambda stream: True)
    assert progress_for_output(asked) == to_terminal
