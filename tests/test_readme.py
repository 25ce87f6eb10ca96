"""The README tells the truth: its code runs, its links lead somewhere, its flags exist."""

import importlib
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import yaml
from absl import flags

import profs_tf as profs
from profs_tf import check_data, embed, evaluate, export, gallery, retrieve, train

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/*.md", "experiments/*.md")
    for path in ROOT.glob(pattern)
)
NOTEBOOK = re.search(r"```python\n(import tensorflow as tf, profs_tf.*?)```", TEXT, re.DOTALL).group(1)
COMMANDS = {
    "profs_tf.check_data": check_data,
    "profs_tf.embed": embed,
    "profs_tf.evaluate": evaluate,
    "profs_tf.export": export,
    "profs_tf.gallery": gallery,
    "profs_tf.retrieve": retrieve,
    "profs_tf.train": train,
}
TOOLS = ("tools/report.py", "tools/run_grid.py")
# The code as it stands, but for how long it trains and how large its pictures' lists are.
SHORTER = (
    ("epochs=20, steps_per_epoch=100", "epochs=1, steps_per_epoch=2"),
    ('profs.datasets.load("emoji")', "few_emoji"),
    ("batch_size=128", "batch_size=16"),
    ("ks=(1, 2, 4, 8))", "ks=(1, 2, 4, 8), verbose=False)"),
    ("callbacks=[profs", "verbose=0, callbacks=[profs"),
)


def run_notebook(few_emoji, folder, monkeypatch, *changes):
    code = NOTEBOOK
    for before, after in (*SHORTER, *changes):
        assert before in code, before
        code = code.replace(before, after)
    monkeypatch.chdir(folder)
    names = {"few_emoji": few_emoji}
    exec(code, names)  # the code is the README's, which is part of this project
    return names


# Keras takes most of a minute to save Inception V1.
@pytest.mark.parametrize("backbone", ["conv4", pytest.param("inception_v1", marks=pytest.mark.slow)])
def test_notebook_code_runs_as_written(backbone, few_emoji, tmp_path, monkeypatch):
    names = run_notebook(few_emoji, tmp_path, monkeypatch, ('"inception_v1"', f'"{backbone}"'))
    assert names["embedder"].name == "embedder"
    assert names["embedder"].output_shape == (None, 512)
    assert int(names["model"].step) == 2
    assert "recall@8" in names["model"].history.history
    loaded = tf.keras.models.load_model(tmp_path / "embedder")
    images = few_emoji[1].images[:3]
    np.testing.assert_allclose(loaded(images), names["embedder"](images), atol=1e-6)


def test_notebook_code_runs_with_a_stock_keras_model(few_emoji, tmp_path, monkeypatch):
    names = run_notebook(
        few_emoji,
        tmp_path,
        monkeypatch,
        ('profs.build_embedder("inception_v1", embedding_dim=512)', 'profs.build_embedder("conv4", 32)'),
        (
            "profs.ProfsModel(embedder, proximal_weight=1e-3)",
            "tf.keras.Model(embedder.inputs, embedder.outputs)",
        ),
    )
    assert {"loss", "recall@1", "projection_index"} <= set(names["model"].history.history)
    assert float(names["model"].loss.boundary) != np.float32(1.2)


def test_notebook_code_runs_with_a_users_own_embedder(few_emoji, tmp_path, monkeypatch):
    own = """tf.keras.Sequential([
        tf.keras.Input([48, 48, 3]), tf.keras.layers.Rescaling(1 / 255), tf.keras.layers.Conv2D(8, 3, 2),
        tf.keras.layers.Flatten(), tf.keras.layers.Dense(16, name="last")])"""
    names = run_notebook(
        few_emoji,
        tmp_path,
        monkeypatch,
        ('profs.build_embedder("inception_v1", embedding_dim=512)', own),
        ("head_multiplier=10.0", 'head_multiplier=10.0, head_layer="last"'),
    )
    assert int(names["model"].proximal.projection_index) == 0
    assert "proximal_penalty" in names["model"].history.history


def test_the_readme_is_short():
    assert len(TEXT.splitlines()) <= 130


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    for link in re.findall(r"\]\(([^)]+)\)", (ROOT / document).read_text("utf-8")):
        if link.startswith("http"):
            continue
        name, _, section = link.partition("#")
        target = (ROOT / document).parent.joinpath(name) if name else ROOT / document
        assert target.exists(), link
        assert not section or section in sections(target), link


def sections(document):
    """The anchors that GitHub gives a document's headings."""
    headings = re.findall(r"^#+ (.+)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_tools_that_are_named_exist(document):
    for path in re.findall(r"\b((?:tools|experiments)/[\w/.]+\w)", (ROOT / document).read_text("utf-8")):
        assert (ROOT / path).exists(), path


def commands():
    """All commands of all documents, as (module or script, arguments)."""
    for document in DOCUMENTS:
        for block in re.findall(r"```bash\n(.*?)```", (ROOT / document).read_text("utf-8"), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["python"] and len(words) > 1:
                    yield (words[2], words[3:]) if words[1] == "-m" else (words[1], words[2:])


def of_package():
    return [(name, arguments) for name, arguments in commands() if name in COMMANDS]


def of_tools():
    return [(name, arguments) for name, arguments in commands() if name in TOOLS]


def test_there_are_commands_to_check():
    assert len(of_package()) >= 20
    assert len(of_tools()) >= 5
    others = {name for name, _ in commands()} - set(COMMANDS) - set(TOOLS)
    # Those are a look at the GPUs, and a tool that is named with --help alone.
    assert others == {"-c", "tools/build_emoji_dataset.py"}


@pytest.mark.parametrize(("name", "arguments"), of_tools())
def test_tools_take_the_arguments(name, arguments, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.chdir(ROOT)
    importlib.import_module(Path(name).stem).parse_arguments(arguments)


@pytest.mark.parametrize(("module", "arguments"), of_package())
def test_commands_have_valid_flags(module, arguments, monkeypatch):
    monkeypatch.chdir(ROOT)
    values = flags.FlagValues()
    COMMANDS[module].define_flags(values)
    assert values(["command", *arguments]) == ["command"]


def test_citation_and_changes_name_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == profs.__version__
    assert citation["preferred-citation"]["year"] == 2021
    assert f"\n## {profs.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
