import functools
import json
import os
import re
import shutil
import signal
import time
from importlib.util import find_spec

import numpy as np
import pytest
from PIL import Image

import profs_tf as profs
from tests.commands.run_commands import run_command, run_in_this_process
from tests.helpers.forked_process import ForkedProcess

run_here = functools.partial(run_in_this_process, "retrieve")


@pytest.fixture(scope="module")
def indexed(whole_run, pictures, tmp_path_factory):
    """An index of the folder of drawings by the trained embedder, and what the command printed."""
    path = tmp_path_factory.mktemp("index") / "index"
    done = run_command(
        "retrieve", f"--index={path}", f"--embedder={whole_run[0] / 'embedder'}", f"--folder={pictures}"
    )
    return path, done


def test_indexes_and_answers_in_a_table_json_and_a_strip(indexed, pictures, tmp_path):
    path, done = indexed
    assert f"{path}: 60 images of 16 dimensions" in done.stdout
    queries = [str(pictures / "class 07/2.png"), str(pictures / "class 08/0.png")]
    ask = ["retrieve", f"--index={path}", f"--query={queries[0]}", "--k=3"]
    (tmp_path / "list.txt").write_text(f"{queries[1]}\n", "utf-8")
    done = run_command(
        *ask, f"--query_list={tmp_path / 'list.txt'}", "--json", f"--strip={tmp_path / 'strip.png'}"
    )
    answer = json.loads(done.stdout)
    assert [row["query"] for row in answer["queries"]] == queries
    for row in answer["queries"]:
        distances = [item["distance"] for item in row["neighbors"]]
        assert distances == sorted(distances)
        assert [item["rank"] for item in row["neighbors"]] == [1, 2, 3]
        assert not any(row["query"].endswith(item["name"]) for item in row["neighbors"])
    lines = run_command(*ask).stdout.splitlines()
    assert lines[0] == queries[0]
    assert [line.split(maxsplit=2)[2] for line in lines[1:]] == [
        item["name"] for item in answer["queries"][0]["neighbors"]
    ]
    strip = Image.open(tmp_path / "strip.png")
    query, nearest = (
        np.asarray(strip.crop((left, 6, left + 112, 118)), int) for left in (6, 6 + 112 + 6 + 12)
    )
    shown = Image.open(pictures / answer["queries"][0]["neighbors"][0]["name"]).resize((112, 112))
    assert np.abs(nearest - np.asarray(shown, int)).mean() < 10
    original = Image.open(queries[0]).resize((112, 112))
    assert np.abs(query - np.asarray(original, int)).mean() < 10


def test_killed_and_run_again_gives_the_same_index(whole_run, tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(1700):
        Image.fromarray(random.integers(0, 256, (8, 8, 3), np.uint8)).save(folder / f"{number:04}.png")
    flags = [f"--embedder={whole_run[0] / 'embedder'}", f"--folder={folder}", "--batch_size=16"]
    process = ForkedProcess("-m", "profs_tf.retrieve", f"--index={tmp_path / 'killed'}", *flags)
    while not list((tmp_path / "killed").glob("chunks/*.npz")) and process.poll() is None:
        time.sleep(0.005)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "killed/index.json").exists()
    run_command("retrieve", f"--index={tmp_path / 'killed'}", *flags)
    profs.ImageIndex.build(folder, whole_run[0] / "embedder", tmp_path / "whole", batch_size=16)
    assert sorted(os.listdir(tmp_path / "killed")) == sorted(os.listdir(tmp_path / "whole"))
    for name in os.listdir(tmp_path / "whole"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_a_data_set_is_indexed_and_searched_by_name(whole_run, pictures, tmp_path, monkeypatch, capsys):
    done = run_here(
        monkeypatch,
        capsys,
        f"--index={tmp_path / 'index'}",
        f"--embedder={whole_run[0] / 'embedder'}",
        f"--dataset=folder:{pictures}",
        "--indexed=class 06/0.png,7",
        "--k=4",
        "--json",
    )
    rows = json.loads(done.out)["queries"]
    assert [row["query"] for row in rows] == ["class 06/0.png", "class 07/2.png"]
    assert {item["class"] for row in rows for item in row["neighbors"]} <= {
        f"class {number:02}" for number in range(6, 12)
    }


def test_an_indexed_query_finds_itself_if_it_is_not_excluded(indexed, monkeypatch, capsys):
    ask = [f"--index={indexed[0]}", "--indexed=class 02/1.png", "--k=2", "--json"]
    for flags, is_found in (([], False), (["--noexclude_self"], True)):
        (row,) = json.loads(run_here(monkeypatch, capsys, *ask, *flags).out)["queries"]
        assert (row["neighbors"][0]["name"] == "class 02/1.png") == is_found


def test_indexes_the_test_split_of_the_embedders_run(quarter_embedder, tmp_path, monkeypatch, capsys):
    flags = [f"--embedder={quarter_embedder}", f"--index={tmp_path / 'index'}"]
    done = run_here(monkeypatch, capsys, *flags)
    assert "--train_classes=0.25" in done.out
    assert "45 images of 16 dimensions" in done.out
    assert set(profs.ImageIndex.load(tmp_path / "index").class_names) == {
        f"class {number:02}" for number in range(3, 12)
    }
    done = run_here(
        monkeypatch, capsys, *flags, "--overwrite", "--split=train", "--indexed=0", "--k=2", "--json"
    )
    assert [row["query"] for row in json.loads(done.out)["queries"]] == ["class 00/0.png"]
    assert "15 images of 16 dimensions" in done.err


def test_paths_with_commas_and_repeated_flags_are_queries(indexed, pictures, tmp_path, monkeypatch, capsys):
    comma = tmp_path / "a,b.png"
    comma.write_bytes((pictures / "class 03/1.png").read_bytes())
    others = [str(pictures / f"class 0{number}/0.png") for number in (4, 5, 6)]
    done = run_here(
        monkeypatch,
        capsys,
        f"--index={indexed[0]}",
        f"--query={comma}",
        f"--query={others[0]},{others[1]}",
        f"--query={others[2]}",
        "--indexed=class 01/2.png,0",
        "--json",
    )
    rows = json.loads(done.out)["queries"]
    assert [row["query"] for row in rows] == [str(comma), *others, "class 01/2.png", "class 00/0.png"]
    assert rows[0]["neighbors"][0]["name"] == "class 03/1.png"


def test_a_missing_query_is_found_before_the_index_is_built(
    whole_run, pictures, tmp_path, monkeypatch, capsys
):
    done = run_here(
        monkeypatch,
        capsys,
        f"--index={tmp_path / 'index'}",
        f"--embedder={whole_run[0] / 'embedder'}",
        f"--folder={pictures}",
        f"--query={pictures / 'class 00/0.png'},{tmp_path / 'no.png'}",
        expected=2,
    )
    assert "no.png: No such file" in done.err
    assert not (tmp_path / "index").exists()


def test_unreadable_pictures_are_named(whole_run, pictures, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "some"
    folder.mkdir()
    (folder / "good.png").write_bytes((pictures / "class 00/0.png").read_bytes())
    (folder / "bad.png").write_bytes(b"no picture")
    flags = [
        f"--index={tmp_path / 'index'}",
        f"--embedder={whole_run[0] / 'embedder'}",
        f"--folder={folder}",
    ]
    assert "bad.png" in run_here(monkeypatch, capsys, *flags, expected=2).err
    done = run_here(monkeypatch, capsys, *flags, "--skip_unreadable")
    assert "bad.png" in done.out
    assert "1 image of 16 dimensions, 1 left out" in done.out


def test_changes_the_index_and_searches_it_by_faiss(indexed, pictures, tmp_path, monkeypatch, capsys):
    pytest.importorskip("faiss", reason="faiss is an extra")
    copied = shutil.copytree(indexed[0], tmp_path / "index")
    (tmp_path / "new").mkdir()
    new = tmp_path / "new/a.png"
    new.write_bytes((pictures / "class 03/1.png").read_bytes())
    done = run_here(
        monkeypatch,
        capsys,
        f"--index={copied}",
        f"--add={tmp_path / 'new'}",
        "--remove=class 03/0.png,class 03/2.png",
        "--faiss_factory=IVF2,Flat",
        "--recall_sample=20",
        "--faiss_recall=1",
    )
    assert "59 images of 16 dimensions" in done.out
    assert re.search(r"faiss IVF2,Flat: Recall@10 \d+\.\d% of 20 queries", done.out), done.out
    asks = [f"--index={copied}", f"--query={new}", "--json"]
    found = [run_here(monkeypatch, capsys, *asks, f"--search={name}").out for name in ("faiss", "exact")]
    neighbors = [json.loads(text)["queries"][0]["neighbors"] for text in found]
    assert neighbors[0] == neighbors[1]
    assert neighbors[0][0]["name"] == "class 03/1.png"
    assert not {"class 03/0.png", "class 03/2.png", str(new)} & {item["name"] for item in neighbors[0]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--index must name the folder of the index"),
        (["--index={0}"], "--query must name a picture unless an index is built"),
        (["--index={0}", "--query={1}/index.json"], "--index must be the folder of an index"),
        (["--index={0}", "--embedder={0}"], "--embedder must be the folder of a SavedModel"),
        (["--index={1}", "--indexed=0", "--strip=/proc/s.png"], "--strip must be writable, got /proc/s.png"),
        (["--index={0}", "--folder={0}"], "--embedder must name the folder of a SavedModel"),
        (["--index={0}", "--folder={0}", "--batch_size=0"], "--batch_size must be >= 1, got 0"),
        (
            ["--index={1}", "--indexed=0", "--strip={0}/no/strip.png"],
            "--strip must be a file in a folder that",
        ),
        (["--index={0}", "--folder={0}", "--dataset=emoji"], "--folder must be left out with --dataset"),
        (
            ["--index={1}", "--indexed=0", "--overwrite"],
            "--overwrite must be left out without --fol",
        ),
        (
            ["--index={1}", "--indexed=0", "--batch_size=8"],
            "--batch_size must be left out without --fo",
        ),
        (["--index={1}", "--remove=0", "--distance=cosine"], "--distance must be left out without --query"),
        (["--index={1}", "--indexed=0", "--embedder={0}"], "--embedder must be left out without --query"),
        (["--index={1}", "--indexed=nobody"], "--indexed must be names in the index or indices in 0..59"),
        (["--index={1}", "--indexed=0", "--k=60"], "--k must be <= 59"),
        (
            ["--index={1}", "--query={0}/no.png"],
            "--query must name image files that can be read, got {0}/no.png: No such file",
        ),
        (["--index={1}", "--indexed=0", "--search=faiss"], "Build one by --faiss_factory=HNSW32"),
        pytest.param(
            ["--index={1}", "--faiss_factory=Guess"],
            "--faiss_factory must suit 60 embeddings of 16 dimensions",
            marks=pytest.mark.skipif(not find_spec("faiss"), reason="faiss is an extra"),
        ),
        (["--index={1}", "--faiss_factory=Flat", "--faiss_recall=95"], "--faiss_recall must be in (0, 1]"),
        (["--index={1}", "--indexed=0", "--faiss_recall=0.9"], "--faiss_recall must be left out without"),
        (
            ["--index={1}", "--remove=nobody", "--k=3"],
            "--k must be left out without --query, got 3. Pass both.",
        ),
        (["--index={1}", "--remove=nobody"], "--remove must be names in the index, got 'nobody'"),
        (["--index={1}", "--add={0}/no.png"], "--add must name image files that can be read, got {0}/no.png"),
        (["--index={1}", "--query_list={0}/no.txt"], "--query_list must be a text file in UTF-8"),
        (["--index={1}", "--query_list={1}/embeddings.npy"], "--query_list must be a text file in UTF-8"),
        (["--index={1}", "--query_list={0}/zeros.txt"], "--query_list must be a text file in UTF-8"),
    ],
)
def test_bad_use_is_refused(arguments, message, indexed, tmp_path, monkeypatch, capsys):
    (tmp_path / "zeros.txt").write_bytes(b"a\0.png\n")
    words = [argument.format(tmp_path, indexed[0]) for argument in arguments]
    assert message.format(tmp_path) in run_here(monkeypatch, capsys, *words, expected=2).err
