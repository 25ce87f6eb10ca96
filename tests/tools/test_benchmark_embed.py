import importlib
import re
from pathlib import Path

TOOLS = Path(__file__).parents[2] / "tools"


def test_compares_the_command_with_the_bare_network(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(TOOLS))
    tool = importlib.import_module("benchmark_embed")
    words = ["--backbone=conv4", "--images=6", "--size", "40", "30", "--resize=24", "--crop=16"]
    tool.report(tmp_path, tool.parse_arguments([*words, "--batch_size=4", "--rounds=1"]))
    printed = capsys.readouterr().out
    lines = re.findall(r"^  (\w.*?)  +[\d,.]+ images/s +([\d.]+) +([\d.]+)$", printed, re.MULTILINE)
    assert [name for name, *_ in lines] == ["signature on the bytes", "network on pixels", "embed"]
    assert lines[-1][1:] == ("1.000", "1.000")
    assert len(list((tmp_path / "out").glob("part-*.npy"))) == 1
