"""Every loss trains on emoji by the command line, in its PROFS and in its ordinary form."""

import json

import pytest

from profs_tf import losses
from tests.commands.run_commands import run_command

VARIANTS = {
    **{name: [f"--loss={name}"] for name in losses.names()},
    # From random weights, as here, its docstring asks for this angle or for unit embeddings.
    "angular": ["--loss=angular", "--angular_angle=30"],
    "angular_normalized": ["--loss=angular", "--normalize"],
    "triplet_semi_hard": ["--loss=triplet", "--triplet_mining=semi_hard"],
    "margin_distance_weighted": ["--loss=margin", "--margin_mining=distance_weighted"],
    "margin_boundary_per_class": ["--loss=margin", "--margin_boundary_per_class"],
}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["profs", "baseline"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_200_steps_raise_recall_by_five_points(variant, method, tmp_path):
    run_command(
        "train",
        "--flagfile=experiments/emoji.flags",
        *VARIANTS[variant],
        f"--method={method}",
        "--epochs=1",
        "--steps_per_epoch=200",
        "--clustering=never",
        "--progress=none",
        f"--output_dir={tmp_path / 'run'}",
        timeout=1200,
    )
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    gain = metrics["best"]["recall@1"] - metrics["untrained"]["recall@1"]
    print(f"{variant} {method}: {metrics['untrained']['recall@1']:.4f} + {gain:.4f}")
    assert gain >= 0.05
