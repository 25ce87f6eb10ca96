import functools
import json
import re
import shutil

import numpy as np
import pytest

from profs_tf import gallery
from profs_tf.datasets.image_list import ImageList
from tests.commands.run_commands import run_command, run_in_this_process


def data_of(path):
    text = path.read_text("utf-8")
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text).group(1))


def test_draws_random_queries_reproducibly(whole_run, pictures, tmp_path):
    root = tmp_path / "pictures"
    shutil.copytree(pictures, root)
    # A name that an HTML parser would run, if it were let to.
    (root / "class 11").rename(root / "zz<script>window.hacked=1<")
    flags = [
        f"--embedder={whole_run[0] / 'embedder'}",
        f"--dataset=folder:{root}",
        "--num_queries=10",
        "--k=3",
    ]
    for name in "ab":
        done = run_command("gallery", *flags, f"--output={tmp_path / name}")
    assert "10 queries" in done.stdout
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    data = data_of(tmp_path / "a")
    assert len(data["queries"]) == 10
    assert {len(query["neighbors"]) for query in data["queries"]} == {3}
    assert data["classes"][-1] == "zz<script>window.hacked=1<"
    assert "<script>window" not in (tmp_path / "a").read_text("utf-8")
    assert len(data["map"]) == 30


run_here = functools.partial(run_in_this_process, "gallery")


def test_shows_the_test_split_of_the_embedders_run(quarter_embedder, tmp_path, monkeypatch, capsys):
    flags = [f"--embedder={quarter_embedder}", f"--output={tmp_path / 'page.html'}", "--k=3"]
    done = run_here(monkeypatch, capsys, *flags)
    assert "--train_classes=0.25" in done.out
    assert "45 queries" in done.out
    assert data_of(tmp_path / "page.html")["classes"] == [f"class {number:02}" for number in range(3, 12)]
    run_here(monkeypatch, capsys, *flags, "--split=train")
    assert data_of(tmp_path / "page.html")["classes"] == [f"class {number:02}" for number in range(3)]


def test_queries_are_named_by_number_or_path(tmp_path):
    paths = ["/data/a/1.png", "/data/b/1.png", "/data/b/11.png", "/data/b/2,1.png"]
    split = ImageList(paths, np.array([0, 1, 1, 1]), ("a", "b"))
    assert gallery.named_queries("2,0, 2", split).tolist() == [2, 0]
    assert gallery.named_queries("b/2,1.png", split).tolist() == [3]
    (tmp_path / "list.txt").write_text("b/1.png\n\n11.png\n0\n", "utf-8")
    assert gallery.named_queries(str(tmp_path / "list.txt"), split).tolist() == [1, 2, 0]
    for text, message in (
        ("4", "got '4', which matches 0 images"),
        ("1.png", "got '1.png', which matches 2 images"),
        (",", "`queries` must name at least one image"),
    ):
        with pytest.raises(ValueError, match=message):
            gallery.named_queries(text, split)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--embedder must name the folder of a SavedModel"),
        (["--embedder={0}", "--num_queries=0"], "--num_queries must be >= 1, got 0"),
        (["--embedder={0}", "--batch_size=0"], "--batch_size must be >= 1, got 0"),
        (
            ["--embedder={0}/model", "--k=4285"],
            "--k must be <= 4284, the other images of the gallery, got 4285",
        ),
        (["--embedder={0}", "--map_images=2"], "--map_images must be >= 3, got 2"),
        (["--embedder={0}", "--output={0}/no/g.html"], "--output must be a file in a folder that exists"),
        (
            ["--embedder={0}", "--output={0}/model/saved_model.pb/g.html"],
            "--output must be a file in a folder",
        ),
        (["--embedder={0}", "--output={0}/model"], "--output must be a file in a folder that exists"),
        (["--embedder={0}", "--output=/proc/g.html"], "--output must be writable, got /proc/g.html"),
        (["--embedder={0}", "--output={0}/g.html"], "--embedder must be the folder of a SavedModel"),
        (
            ["--embedder={0}/model", "--dataset=emoji", "--queries=x,y"],
            "--queries must be indices in 0..4284",
        ),
        (["--embedder={0}", "--map=umap"], "umap"),
    ],
)
def test_bad_use_is_refused(arguments, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/saved_model.pb").touch()
    words = [argument.format(tmp_path) for argument in arguments]
    assert message in run_here(monkeypatch, capsys, *words, expected=2).err
