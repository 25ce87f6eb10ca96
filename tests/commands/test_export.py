import json

import pytest
import tensorflow as tf

from profs_tf import export
from profs_tf.cli import command as command_line
from profs_tf.serving.loaded import SavedEmbedder
from tests.commands.run_commands import run_command


def test_export_gives_the_embedder_that_training_wrote(whole_run, tmp_path):
    folder, _ = whole_run
    output = tmp_path / "exported"
    run_command("export", f"--run_dir={folder}", f"--output={output}", "--license=cc-by-4.0")
    images = tf.random.stateless_uniform([3, 24, 24, 3], [1, 2], 0, 256, tf.int32)
    ours, theirs = (
        tf.saved_model.load(str(path)).signatures["uint8_images"](images=tf.cast(images, tf.uint8))[
            "embeddings"
        ]
        for path in (output, folder / "embedder")
    )
    tf.debugging.assert_equal(ours, theirs)
    # An index of one can be searched by the other.
    assert SavedEmbedder(output).sha256 == SavedEmbedder(folder / "embedder").sha256
    best = json.loads((folder / "metrics.json").read_text())["best"]
    card = (output / "README.md").read_text("utf-8")
    assert card.startswith('---\nlibrary_name: "tf-keras"\n')
    assert '\nlicense: "cc-by-4.0"\n' in card
    assert f"| this embedder, epoch {best['epoch']} | {100 * best['recall@1']:.2f} |" in card
    assert "| crop | the central 24 x 24 pixels |" in card


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--run_dir must name a folder"),
        (["--run_dir={0}"], "--output must name a folder"),
        (["--run_dir={0}", "--output={0}"], "--output must not exist"),
        (["--run_dir={0}", "--output={0}/file/out"], "--output must be a folder, got {0}/file/out"),
        (["--run_dir={0}", "--output=/proc/out"], "--output must be writable, got /proc/out"),
        (["--run_dir={0}", "--output={0}/out", "--formats=tfjs"], "--formats must be among saved_model"),
        (["--run_dir={0}", "--output={0}/out"], "--run_dir must be the folder of a run of the train command"),
    ],
)
def test_bad_use_is_refused_before_the_run_is_read(arguments, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("sys.argv", ["export", *(argument.format(tmp_path) for argument in arguments)])
    monkeypatch.setattr(command_line, "_start_logging", lambda: None)
    with pytest.raises(SystemExit) as stopped:
        command_line.run(export.main, export.define_flags, export.USAGE)
    assert stopped.value.code == 2
    assert message.format(tmp_path) in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
