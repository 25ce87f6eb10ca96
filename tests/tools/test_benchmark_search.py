import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "benchmark_search.py"


@pytest.mark.slow
def test_an_index_of_faiss_is_faster_than_the_exact_search_and_finds_most(tmp_path):
    pytest.importorskip("faiss", reason="faiss is an extra")
    command = [
        sys.executable, str(TOOL), "--images=20000", "--factories=IVF64,SQ8;HNSW16", f"--work_dir={tmp_path}"
    ]  # fmt: skip
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert re.search("under 5 ms at Recall@10 of 0.95 +yes", output), output
    assert min(map(float, re.findall(r"Recall@10 +([\d.]+);", output))) > 0.9, output
    assert not list(tmp_path.iterdir())
