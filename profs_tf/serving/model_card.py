"""The model card of an exported embedder: training, figures, preprocessing, files, and how to load it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from profs_tf.config import Config
from profs_tf.datasets.class_split import shared_classes
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.metrics.scores import is_score
from profs_tf.serving.formats import FORMATS
from profs_tf.serving.hub_metadata import OTHER_LICENSE, front_matter
from profs_tf.version import __version__

_HEAD_STARTS = {
    None: ", started as in that run",
    "random": ", started at random",
    "pca": ", started as PCA whitening of the training images' features",
}
_METHODS = {
    "profs": "PROFS, alternating projections onto feasible sets (Can, Gürbüz, Alatan)",
    "profs_hncm": "PROFS with hard negative class mining (Can, Gürbüz, Alatan)",
    "ccp": "CCP, chance-constrained programming (Gürbüz, Can, Alatan)",
    "proximal": "ordinary batches with the proximal penalty of PROFS",
    "baseline": "ordinary batches, no penalty",
}

_LOADING = {
    "saved_model": """import tensorflow as tf  # nothing else is needed
embed = tf.saved_model.load("FOLDER").signatures["encoded_images"]
embeddings = embed(images=tf.constant([open("picture.png", "rb").read()]))["embeddings"]""",
    "tflite": """interpreter = tf.lite.Interpreter("FOLDER/FILE")  # or ai_edge_litert.interpreter.Interpreter
interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], images.shape)
embeddings = interpreter.get_signature_runner()(images=images)["embeddings"]""",
    "onnx": """import onnxruntime
session = onnxruntime.InferenceSession("FOLDER/FILE", providers=["CPUExecutionProvider"])
embeddings = session.run(["embeddings"], {"images": images})[0]""",
}
_LOADING["tflite_float16"] = _LOADING["tflite"]


class Trained(NamedTuple):
    """What the card says of a run besides its configuration."""

    train_images: ImageList
    """The training split."""
    test_images: ImageList
    """The evaluated split."""
    steps_per_projection: int
    loss_options: dict[str, Any]
    """All options of the loss, set or by default."""
    normalized: bool
    """Whether embeddings have unit length."""
    num_weights: int
    metrics: dict[str, dict[str, float]]
    """`untrained` and `best`, each {name: figure}; empty if nothing was evaluated."""
    origin: str
    """Of the weights before training."""


def model_card(
    config: Config,
    preprocessing: Preprocessing,
    differences: dict[str, float],
    trained: Trained,
    license_id: str = OTHER_LICENSE,
) -> str:
    """Returns the card as Markdown, with front matter for the Hugging Face Hub.

    Args:
        config: Of the run.
        preprocessing: That of the evaluation.
        differences: {format: largest difference from the Keras model}.
        trained: Data and results of the run.
        license_id: The Hub's identifier of the embedder's license.
    """
    best = trained.metrics.get("best", {})
    figures = {name: value for name, value in best.items() if is_score(name)}
    num_shared = len(shared_classes(trained.train_images, trained.test_images))
    tested = "validation" if config.validation_classes is not None else "test"
    sections = (
        front_matter(config, figures, num_shared, license_id),
        f"# {config.backbone} embedder, {_data(config)}\n",
        _training(config, trained, tested, num_shared),
        _figures(trained.metrics, tested),
        _preprocessing(preprocessing, trained.test_images.boxes is not None),
        _embeddings(config, trained),
        _files(differences),
        _loading(list(differences)),
        f"Written by profs_tf {__version__}; paper: <https://arxiv.org/abs/1907.07585>.\n",
    )
    return "\n".join(section for section in sections if section)


def _training(config: Config, trained: Trained, tested: str, num_shared: int) -> str:
    options = ", ".join(f"{name} = {value}" for name, value in trained.loss_options.items())
    by_loss = config.projection_end == "plateau" and trained.steps_per_projection > 1
    until_plateau = " at the latest, earlier on a plateau of the loss" if by_loss else ""
    steps = f"{trained.steps_per_projection}{until_plateau}"
    if config.method == "ccp":
        steps = "until a plateau of MAP@R on training classes held out for it"
    rows = {
        "data": _data(config),
        "training split": _split(trained.train_images),
        f"{tested} split": f"{_split(trained.test_images)}, {num_shared or 'none'} of which trained",
        "method": _METHODS[config.method],
        "loss": f"{config.loss} ({options}){config.memory_note}",
        "steps a projection (M)": steps,
        "proximal weight (lambda)": f"{config.effective_proximal_weight:g}",
        "batches": f"{config.batch_size} images, {config.images_per_class} of a class",
        "learning rate": f"{config.learning_rate:g}, of the head {config.head_multiplier:g} times as much",
        "epochs": f"at most {config.epochs}; the best one's weights, by Recall@{min(config.ks)}",
        "seed": config.seed,
        "backbone": f"{config.backbone}, {trained.num_weights:,} weights with the head",
        "initial weights": trained.origin,
        "head": f"{config.head}{_HEAD_STARTS[config.head_init]}",
        "trained layers": config.train_layers,
    }
    return "## Training\n\n" + _table(("", ""), list(rows.items()))


def _data(config: Config) -> str:
    """Returns the data set, without the folders above it: the card may be published."""
    kind, colon, path = config.dataset.partition(":")
    return f"{kind}{colon}{Path(path).name}"


def _split(images: ImageList) -> str:
    return f"{len(images):,} images of {images.num_classes:,} classes"


def _figures(reports: Mapping[str, Mapping[str, float]], tested: str) -> str:
    if not reports:
        return "## Figures\n\nNothing was evaluated.\n"
    names = [name for name in reports.get("best", reports.get("untrained", {})) if is_score(name)]
    rows = []
    for line, title in (("untrained", "before training"), ("best", "this embedder")):
        report = reports.get(line, {})
        if report:
            epoch = f", epoch {report['epoch']:g}" if line == "best" else ""
            cells = (f"{100 * report[name]:.2f}" if name in report else "" for name in names)
            rows.append((title + epoch, *cells))
    return f"## Figures on the {tested} split, in percent\n\n" + _table(("", *names), rows)


def _preprocessing(preprocessing: Preprocessing, boxes: bool) -> str:
    size, crop = preprocessing.resize, preprocessing.crop
    first = {
        "stretch": "",
        "crop": "the central square, ",
        "pad": "with a gray border (127) to a square, ",
    }[preprocessing.aspect]
    stretched = " whatever the aspect ratio" if preprocessing.aspect == "stretch" else ""
    scaling = (
        f"{first}scaled to {size} x {size} pixels{stretched}, bilinearly with antialiasing"
        if size
        else "not scaled"
    )
    rows = [
        ("channels", "RGB, in this order"),
        ("values", "0 to 255; float values are rounded to integers. The network normalizes them itself"),
        ("resize", scaling),
        ("crop", f"the central {crop} x {crop} pixels"),
    ]
    included = "Every format includes it: pass pictures of any size."
    if boxes:
        included += " Training and evaluation saw the data's bounding boxes, cut out first: pass such cuts."
    return f"## Preprocessing\n\n{_table(('', ''), rows)}\n{included}\n"


def _embeddings(config: Config, trained: Trained) -> str:
    distance = (
        "Euclidean, or cosine similarity, which ranks the same"
        if trained.normalized
        else "Euclidean; cosine similarity ranks differently"
    )
    rows = [
        ("dimension", f"{config.embedding_dim}, float32"),
        ("length", "1 (normalized)" if trained.normalized else "any (not normalized)"),
        ("distance", distance),
    ]
    return "## Embeddings\n\n" + _table(("", ""), rows)


def _files(differences: dict[str, float]) -> str:
    rows = [
        (name, FORMATS[name].file or "the folder itself", f"{difference:.1e}", f"{FORMATS[name].bound:g}")
        for name, difference in differences.items()
    ]
    table = _table(("format", "file", "differs by", "at most"), rows)
    return (
        "## Files\n\nThe largest difference of an embedding's values from the Keras model's, on scaled "
        "pictures of the evaluated split. Scaling itself may round halves differently.\n\n"
        f"{table}"
    )


def _loading(formats: Sequence[str]) -> str:
    parts = ["## Loading\n\n`images` is float32 `[N, H, W, 3]`.\n"]
    for name in formats:
        code = _LOADING[name].replace("FILE", FORMATS[name].file)
        parts.append(f"{name}:\n\n```python\n{code}\n```\n")
    return "\n".join(parts)


def _table(head: Sequence, rows: Sequence) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)
