"""The guides' code runs, each guide's blocks in turn: as written, but for how much they train on what."""

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import profs_tf as profs
from profs_tf.shards.job import ShardOptions
from profs_tf.shards.pictures import pictures_in
from profs_tf.shards.writer import write_shards
from tests.shards.tiny import save_tiny_embedder

DOCS = Path(__file__).parent.parent / "docs"
EMOJI = ('profs.datasets.load("emoji")', "few_emoji")
QUICK = "steps_per_epoch=2, verbose=0"
# What is put in place of what, in each guide.
SHORTER = {
    "ccp": (
        EMOJI,
        ("hold_out_classes(train, 0.25)", "hold_out_classes(train, 0.4)"),
        ("batch_size=64", "batch_size=16"),
        ("epochs=20, steps_per_epoch=25", QUICK),
    ),
    "embedding_at_scale": (("IVF1024,SQ8", "IVF2,Flat"),),
    "evaluation": (),
    "how_profs_works": (EMOJI,),
    "keras3": (
        EMOJI,
        ("batch_size=64, images_per_class=4", "batch_size=16, images_per_class=4"),
        ("epochs=2, steps_per_epoch=30", QUICK),
    ),
    "own_backbone": (EMOJI, ("batch_size=32", "batch_size=8"), ("epochs=10, steps_per_epoch=100", QUICK)),
    "own_loss": (EMOJI, ("batch_size=64", "batch_size=16"), ("epochs=10, steps_per_epoch=60", QUICK)),
    "own_pictures": (),
    "plain_keras": (
        EMOJI,
        ("batch_size=128, epochs=5", "batch_size=30, verbose=0"),
        ("batch_size=64, images_per_class=4", "batch_size=16, images_per_class=4"),
        ("epochs=2, steps_per_epoch=30", QUICK),
        ("batches.take(300)", "batches.take(15)"),
        ("ks=(1, 2), best", "ks=(1, 2), verbose=False, best"),
    ),
    "reproducing": (EMOJI,),
    "scaling_out": (
        EMOJI,
        ('"inception_v1", embedding_dim=512', '"conv4", embedding_dim=16'),
        ("batch_size=128", "batch_size=16"),
        ("epochs=20, steps_per_epoch=100", QUICK),
        ("RecallCallback(test)", "RecallCallback(test, verbose=False)"),
    ),
    "using_the_embedder": (
        ("batch_size=64, images_per_class=4", "batch_size=4, images_per_class=2"),
        (
            '"efficientnet_lite0", embedding_dim=512, input_size=224, pretrained="imagenet"',
            '"conv4", embedding_dim=16, input_size=24',
        ),
        ("resize=256, crop=224", "resize=24, crop=24"),
        ("train.num_classes, embedding_dim=512", "train.num_classes, embedding_dim=16"),
        ("ks=(1,)", "ks=(1,), verbose=False"),
        ("epochs=20, steps_per_epoch=32", QUICK),
        (", progress=True", ""),
    ),
}
# Building, training and saving the guide's own takes minutes where other work shares the machine.
SMALL_NETWORK = (
    "tf.keras.applications.MobileNetV2(input_shape=(96, 96, 3), include_top=False, weights=None, alpha=0.35)",
    "tf.keras.Sequential([tf.keras.Input((96, 96, 3)), tf.keras.layers.Conv2D(8, 3, 4)])",
)


@pytest.fixture
def run_guide(few_emoji, tmp_path, monkeypatch):
    """Runs a guide's code in a folder with pictures of its own; returns the names that it defined."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    for name in ("cup", "fork", "knife", "plate", "spoon", "wok"):
        folder = tmp_path / "pictures" / name
        folder.mkdir(parents=True)
        for number in range(2):
            Image.fromarray(random.integers(0, 256, (20, 20, 3), np.uint8)).save(folder / f"{number}.png")
    (tmp_path / "picture.png").write_bytes((folder / "1.png").read_bytes())

    def run(guide, *changes):
        code = "\n".join(blocks(guide))
        for before, after in (*SHORTER[guide], *changes):
            assert before in code, before
            code = code.replace(before, after)
        names = {"few_emoji": few_emoji}
        exec(compile(code, f"docs/{guide}.md", "exec"), names)  # the code is this project's own
        return names

    return run


def blocks(guide):
    return re.findall(r"```python\n(.*?)```", (DOCS / f"{guide}.md").read_text("utf-8"), re.DOTALL)


def test_every_guide_with_code_is_run():
    assert {path.stem for path in DOCS.glob("*.md") if blocks(path.stem)} == set(SHORTER)


def test_embedding_at_scale(run_guide):
    for library in ("faiss", "pyarrow"):
        pytest.importorskip(library)
    save_tiny_embedder("embedder")
    options = ShardOptions(format="parquet", shard_size=5)
    recall = write_shards(pictures_in("pictures"), "embedder", "embeddings", options)["recall"]
    names = run_guide("embedding_at_scale")
    assert [row["label"] for row in names["rows"]] == ["wok", "wok"]
    assert names["recall"] == recall["recall@1"]["float32"]


def test_ccp(run_guide, capsys):
    names = run_guide("ccp")
    assert 0 < names["history"].history["validation_map@r"][0] <= 1


def test_evaluation(run_guide):
    assert 0.5 < run_guide("evaluation")["report"]["recall@1"] <= 1


def test_how_profs_works(run_guide):
    names = run_guide("how_profs_works")
    assert names["k"] == 2
    assert len(names["queries"]) == names["sampler"].classes_per_batch


def test_keras3(run_guide):
    keras = pytest.importorskip("keras", minversion="3", reason="this TensorFlow has no Keras 3")
    names = run_guide("keras3")
    assert isinstance(names["student"], keras.Model)
    assert np.isfinite(names["history"].history["loss"]).all()
    images = tf.zeros([1, 48, 48, 3])
    assert names["embedder"](images).shape == names["layer"](images)["normalize"].shape == (1, 64)


def test_own_pictures(run_guide):
    names = run_guide("own_pictures")
    assert [len(names[part]) for part in ("train", "test")] == [4, 4]
    table = profs.datasets.from_csv("pictures.csv")
    assert [part.class_names for part in table] == [("cup", "fork", "knife"), ("plate", "spoon", "wok")]


def test_own_loss(run_guide):
    names = run_guide("own_loss")
    assert np.isfinite(names["history"].history["loss"]).all()
    loss = names["SoftContrastiveLoss"]
    again = tf.keras.losses.deserialize(tf.keras.losses.serialize(loss(far=1.5)))
    assert (type(again), again.near, again.far) == (loss, 0.5, 1.5)
    assert list(loss.options()) == ["near", "far"]
    alone = float(loss()([0, 0], tf.zeros([2, 3])))
    assert alone == pytest.approx(np.log1p(np.exp(-0.5)), rel=1e-5)


def check_own_backbone(names):
    assert int(names["model"].optimizer.iterations) == 0
    assert {"loss", "proximal_penalty"} <= set(names["history"].history)
    exported = tf.saved_model.load("embedder").signatures["uint8_images"]
    assert exported(images=tf.zeros([1, 48, 48, 3], tf.uint8))["embeddings"].shape == (1, 64)
    embedder = profs.build_embedder("backbone.keras", 8, input_size=96)
    assert embedder.output_shape == (None, 8)


def test_own_backbone(run_guide):
    check_own_backbone(run_guide("own_backbone", SMALL_NETWORK))


@pytest.mark.slow
def test_own_backbone_with_its_own_network(run_guide):
    check_own_backbone(run_guide("own_backbone"))


def test_plain_keras(run_guide):
    names = run_guide("plain_keras")
    assert int(names["proximal"].projection_index) == 14 // names["sampler"].steps_per_projection > 0
    assert float(names["penalty"]) >= 0
    assert np.isfinite(float(names["value"]))
    assert 0 <= names["report"]["recall@1"] <= 1
    assert names["recall"].best["epoch"] == 1
    assert names["embed"](images=tf.zeros([1, 48, 48, 3], tf.uint8))["embeddings"].shape == (1, 32)


def test_reproducing(run_guide):
    assert run_guide("reproducing")["one"].seed == 7


def test_scaling_out(run_guide):
    names = run_guide("scaling_out")
    assert names["model"].steps_taken == 2
    assert "recall@1" in names["model"].history.history


def test_using_the_embedder(run_guide, capsys):
    means = tf.keras.Sequential([tf.keras.Input((20, 20, 3)), tf.keras.layers.GlobalAveragePooling2D()])
    profs.save_embedder(means, profs.Preprocessing(resize=20, crop=20), "runs/emoji/embedder")
    names = run_guide("using_the_embedder")
    index = names["index"]
    np.testing.assert_allclose(names["embeddings"][0], index.embeddings[-2], rtol=1e-5)
    assert (len(index), index.names[0], index.names[-1][-7:]) == (12, "cup/1.png", "new.png")
    by_bytes, by_image = index.query(names["queries"][1:3], k=1)
    assert by_bytes == by_image
    assert by_bytes[0].name == "wok/1.png"

    (script,) = (block for block in blocks("using_the_embedder") if "train_pipeline" in block)
    assert len(script.splitlines()) <= 30
    printed = [line.split() for line in capsys.readouterr().out.splitlines()[-3:]]
    found = names["catalogue"].query(names["image"], k=3)[0]
    assert printed == [[f"{item.distance:.3f}", item.name] for item in found]
