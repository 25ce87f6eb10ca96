"""One new file and one registry line add a backbone, as docs/own_backbone.md shows them."""

import json

from tests.helpers.package_copy import code_blocks, copy_package, run_copied_command

FILE = "# profs_tf/backbones/mine.py\n"


def test_one_file_and_one_line_train_by_the_command(tmp_path):
    package = copy_package(tmp_path)
    code = next(block for block in code_blocks("own_backbone", "python") if block.startswith(FILE))
    (line,) = code_blocks("own_backbone", "text")
    registry = package / "backbones" / "__init__.py"
    text = registry.read_text("utf-8")
    assert text.count("_NAMES = (\n") == 1
    (package / "backbones" / "mine.py").write_text(code, "utf-8")
    registry.write_text(text.replace("_NAMES = (\n", f"_NAMES = (\n{line}"), "utf-8")

    options = (
        "--backbone=mine --embedding_dim=4 --batch_size=8 --epochs=1 --steps_per_epoch=2 --clustering=never"
    )
    shown = "--ks=1 --progress=none --tensorboard=none --output_dir=run"
    done = run_copied_command(package, "train", *options.split(), *shown.split())
    assert done.returncode == 0, done.stdout + done.stderr
    weights = 9 * 3 * 16 + 9 * 16 * 32 + 4 * (16 + 32) + 32 * 4 + 4
    assert f"mine on CPU:0, {weights:,} weights" in done.stdout
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["steps"] == 2
