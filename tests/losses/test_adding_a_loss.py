"""One new file and one registry line add a loss, as docs/own_loss.md shows them."""

import json

from tests.helpers.package_copy import code_blocks, copy_package, run_copied_command

FILE = "# profs_tf/losses/soft_contrastive.py\n"


def test_one_file_and_one_line_train_by_the_command(tmp_path):
    package = copy_package(tmp_path)
    code = next(block for block in code_blocks("own_loss", "python") if block.startswith(FILE))
    (line,) = code_blocks("own_loss", "text")
    assert line.count("\n") == 1
    registry = package / "losses" / "registry.py"
    last = "from profs_tf.losses.triplet import TripletLoss as TripletLoss\n"
    text = registry.read_text("utf-8")
    assert text.count(last) == 1
    (package / "losses" / "soft_contrastive.py").write_text(code, "utf-8")
    registry.write_text(text.replace(last, line + last), "utf-8")

    options = "--loss=soft_contrastive --soft_contrastive_near=0.25 --backbone=conv4 --embedding_dim=4"
    size = "--image_resize=16 --batch_size=8 --epochs=1 --steps_per_epoch=2 --clustering=never --ks=1"
    shown = "--progress=none --tensorboard=none --output_dir=run"
    done = run_copied_command(package, "train", *f"{options} {size} {shown}".split())
    assert done.returncode == 0, done.stdout + done.stderr
    run = tmp_path / "run"
    assert json.loads((run / "metrics.json").read_text())["steps"] == 2
    config = json.loads((run / "config.json").read_text())
    assert (config["loss"], config["loss_options"]) == ("soft_contrastive", {"near": 0.25})
    untrained, trained = (run / "log.csv").read_text().splitlines()[1:]
    assert untrained != trained
