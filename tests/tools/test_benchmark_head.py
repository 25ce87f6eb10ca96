import importlib

import pytest


def test_it_compares_steps_of_head_and_network(monkeypatch, request, capsys):
    monkeypatch.syspath_prepend(str(request.config.rootpath / "tools"))
    tool = importlib.import_module("benchmark_head")
    sizes = ["--image_size=32", "--batch_size=16", "--images=200", "--rounds=1", "--head_steps=5"]
    tool.main(["--backbone=conv4", *sizes])
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "head",
        "whole network",
        "steps of the head in the time of one of the whole network",
        "peak memory",
    ]
    head, whole = (float(line.split()[-4]) for line in lines[:2])
    assert int(lines[2].split()[-3]) == pytest.approx(whole / head, rel=0.1, abs=1)
