import io
import json
import types

import numpy as np
import pytest

from tests.commands.run_commands import run_as_typed, run_in_this_process
from tests.helpers.saved_models import loaded_once  # noqa: F401
from tests.shards.tiny import NUM_PICTURES, contents, draw_pictures, mean_colors, save_tiny_embedder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The folders of an embedder and of pictures."""
    root = tmp_path_factory.mktemp("embed")
    return save_tiny_embedder(root / "embedder"), draw_pictures(root / "pictures")


@pytest.fixture
def embed_here(tiny, tmp_path, monkeypatch, capsys):
    """Runs the command in this process; returns its output."""

    def run(*words, expected=0, stdin=b""):
        filled = [word.format(embedder=tiny[0], pictures=tiny[1], tmp=tmp_path) for word in words]
        monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(stdin)))
        return run_in_this_process("embed", monkeypatch, capsys, *filled, expected=expected)

    return run


COMMON = ("--embedder={embedder}", "--output={tmp}/out")


def test_embeds_a_folder(embed_here, tiny, tmp_path):
    done = embed_here(*COMMON, "--images={pictures}", "--dtype=int8", "--shard_size=10")
    assert f"{NUM_PICTURES} images of 3 dimensions, int8, in 3 shards of npy" in done.out
    assert "Recall@1 of 22 images, in percent: float32 " in done.out
    scale = json.loads((tmp_path / "out/_manifest.json").read_text())["scale"]
    codes = np.concatenate([np.load(tmp_path / f"out/part-0000{number}.npy") for number in range(3)])
    expected = mean_colors(sorted(tiny[1].rglob("*.png")))
    assert np.abs(codes * scale - expected).max() <= scale


# Three processes import TensorFlow.
@pytest.mark.slow
def test_two_processes_give_the_bytes_of_one(embed_here, tiny, tmp_path):
    words = [f"--embedder={tiny[0]}", f"--images={tiny[1]}", "--dtype=int8", "--shard_size=10"]
    embed_here(*words, "--output={tmp}/alone")
    run_as_typed("embed", *words, f"--output={tmp_path / 'two'}", "--processes=2")
    assert contents(tmp_path / "two") == contents(tmp_path / "alone")
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    (tmp_path / "list.txt").write_text(f"{broken}\n" * 4)
    words = [words[0], f"--images={tmp_path / 'list.txt'}", f"--output={tmp_path / 'broken'}"]
    done = run_as_typed("embed", *words, "--processes=2", "--shard_size=2", expected=2)
    assert done.stderr.count("broken.png: it is in no known format. Replace") == 1


def test_embeds_lists_a_csv_file_and_a_data_set(embed_here, tiny, tmp_path):
    paths = sorted(map(str, tiny[1].rglob("*.png")))[:3]
    (tmp_path / "list.txt").write_text("\n".join(paths) + "\n\n")
    (tmp_path / "table.csv").write_text("path,label\n" + "".join(f"{path},cup\n" for path in paths))
    embed_here(*COMMON, "--images={tmp}/list.txt")
    wanted = np.load(tmp_path / "out/part-00000.npy")
    np.testing.assert_allclose(wanted, mean_colors(paths), atol=1e-3)
    assert (tmp_path / "out/part-00000.csv").read_text().splitlines()[1].startswith(f"{paths[0]},,")
    embed_here(COMMON[0], "--output={tmp}/stdin", "--images=-", stdin="\n".join(paths).encode())
    embed_here(COMMON[0], "--output={tmp}/csv", "--images={tmp}/table.csv")
    for other in ("stdin", "csv"):
        np.testing.assert_array_equal(np.load(tmp_path / other / "part-00000.npy"), wanted)
    assert ",cup," in (tmp_path / "csv/part-00000.csv").read_text()
    done = embed_here(COMMON[0], "--output={tmp}/data", "--dataset=folder:{pictures}", "--split=train")
    assert "12 images of 3 dimensions" in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--output={tmp}/out"], "--embedder must name a folder"),
        ([COMMON[0]], "--output must name a folder"),
        (
            ["--embedder={tmp}", COMMON[1], "--images={pictures}"],
            "--embedder must be the folder of a SavedModel",
        ),
        ([*COMMON, "--images={tmp}/missing"], "--images must be a folder, a .csv file, a text file of paths"),
        ([*COMMON, "--images={tmp}"], "must hold images"),
        ([*COMMON, "--images=-"], "--images must list at least one picture, one path a line, got none"),
        ([*COMMON, "--images={pictures}", "--split=train"], "--images must be left out with --dataset"),
        ([*COMMON, "--images={pictures}", "--shard_size=0"], "--shard_size must be >= 1, got 0"),
        ([*COMMON, "--images={tmp}/corrupt.txt"], "corrupt.txt: it is in no known format"),
        ([*COMMON, "--images={pictures}", "--output=/proc/out"], "--output must be writable"),
    ],
)
def test_bad_use_is_refused_in_one_line(words, message, embed_here, tmp_path):
    (tmp_path / "corrupt.txt").write_text(f"{tmp_path / 'corrupt.txt'}\n")
    error = embed_here(*words, expected=2).err
    assert message in error
    assert len(error.strip().splitlines()) == 1
