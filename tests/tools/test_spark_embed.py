import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from profs_tf.shards.job import ShardOptions
from profs_tf.shards.pictures import pictures_in
from profs_tf.shards.writer import write_shards
from tests.shards.tiny import NUM_PICTURES, draw_pictures, save_tiny_embedder

TOOL = Path(__file__).parents[2] / "tools" / "spark_embed.py"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_the_job_gives_the_embeddings_of_the_command(tmp_path):
    pyspark = pytest.importorskip("pyspark", reason="pip install 'profs_tf[spark]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    embedder, pictures = save_tiny_embedder(tmp_path / "embedder"), draw_pictures(tmp_path / "pictures")
    first = sorted(pictures.rglob("*.png"))[0]
    first.rename(first.with_suffix(".PNG"))
    flags = [f"--embedder={embedder}", f"--images={pictures}", f"--output={tmp_path / 'spark'}"]
    submit = Path(pyspark.__file__).parent / "bin/spark-submit"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [submit, "--master", "local[2]", TOOL, *flags, "--batch_size=5", "--partitions=4"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    write_shards(pictures_in(pictures), embedder, tmp_path / "command", ShardOptions(format="parquet"))
    ours, theirs = (
        {row["checksum"]: row for row in parquet.read_table(tmp_path / name).to_pylist()}
        for name in ("command", "spark")
    )
    assert ours.keys() == theirs.keys()
    assert len(ours) == NUM_PICTURES
    for checksum, row in ours.items():
        assert theirs[checksum]["name"].endswith(row["name"])
        np.testing.assert_allclose(theirs[checksum]["embedding"], row["embedding"], rtol=1e-6)
