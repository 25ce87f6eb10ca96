"""Every choice of a training run: one frozen dataclass with the defaults, the ranges and what each is for."""

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Optional, Union

METHODS = ("baseline", "profs", "profs_hncm")


def option(
    default: Any, text: str, *, choices: tuple[str, ...] = (), minimum: Any = None, above: Any = None
) -> Any:
    """Declares a field: its default, the text of its flag, and its range.

    Args:
        default: the value; None for what is derived from other values.
        text: help in one or two sentences, with the unit.
        choices: the valid values, where they are few.
        minimum: the smallest valid value.
        above: every valid value is greater than this.
    """
    metadata = {"help": text, "choices": choices, "minimum": minimum, "above": above}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Config:
    """All of a run. The defaults are the paper's (section 5.2); None is replaced by what the help says."""

    dataset: str = option(
        "emoji", "Data set: emoji (comes with the package), cub200, cars196, sop, folder:PATH or csv:PATH."
    )
    data_dir: Optional[str] = option(None, "Folder that holds the data set as its archive unpacks.")
    train_classes: Optional[str] = option(
        None,
        "Own pictures only: the part of the classes that trains (0.5), or a text file with their names, one "
        "a line; default the first half.",
    )
    validation_classes: Optional[float] = option(
        None,
        "Share of the training classes, drawn by a fixed shuffle, that is held out of training and evaluated "
        "in place of the test classes: for choosing values. Default none, and the test classes.",
        above=0.0,
    )
    allow_partial_data: bool = option(False, "Whether an incomplete copy of a data set is taken.")
    download: bool = option(False, "Whether TensorFlow Datasets may download a data set that is not found.")
    output_dir: str = option("", "Folder that the run is written to; it must not hold another run.")
    seed: int = option(
        0, "Seed of everything random; two runs with one seed are equal bit for bit.", minimum=0
    )

    method: str = option(
        "profs",
        "profs: representatives, anchor weights and penalty. profs_hncm: also batches of mined classes. "
        "baseline: ordinary batches, no penalty.",
        choices=METHODS,
    )
    batch_size: int = option(128, "B, images in a batch; a multiple of --images_per_class.", minimum=1)
    images_per_class: int = option(
        2, "I, images of each class in a batch, the representative included.", minimum=1
    )
    representative_uses: int = option(
        6, "rho: how often a representative is used in a projection; gives M.", minimum=1
    )
    steps_per_projection: Optional[int] = option(
        None, "M, steps between two swaps of anchors and representatives; default ceil(rho L / C).", minimum=1
    )
    representative_draw: str = option(
        "uniform",
        "uniform: drawn anew for each projection. cyclic: no image serves twice before all of its class did.",
        choices=("uniform", "cyclic"),
    )
    hard_classes_per_seed: int = option(
        3, "h, with profs_hncm: nearest classes that each seed class brings into the batch.", minimum=1
    )
    mining_strategy: str = option(
        "nearest",
        "With profs_hncm: each seed's nearest classes, or greedily the class nearest to any in the batch.",
        choices=("nearest", "greedy"),
    )
    mining_lag: int = option(
        4,
        "With profs_hncm: steps between the newest embeddings used and the batch mined from them.",
        minimum=1,
    )
    proximal_weight: float = option(
        1e-3, "lambda, the weight of the pull towards the anchor weights.", minimum=0.0
    )
    proximal_decay: float = option(
        1.0,
        "Factor on lambda for every epoch; below 1 lets it decay as section 5.4.2 of the paper suggests.",
        above=0.0,
    )

    loss: str = option(
        "margin", "Name of the loss; its own options follow as --LOSS_OPTION, such as --margin_boundary."
    )
    loss_options: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "Options of the loss by name."}
    )

    backbone: str = option(
        "inception_v1",
        "Network up to its global average pooling: a name, keras_cv:PRESET, or the path of a Keras model.",
    )
    pretrained: Optional[str] = option(
        None,
        "File with published weights of the backbone, or what tools/convert_weights.py made of one; "
        "default random weights.",
    )
    initial_run: Optional[str] = option(
        None,
        "Folder of another run of the same backbone and dimension: training begins with its best epoch's "
        "weights, the head's too. Default random or --pretrained ones.",
    )
    freeze_batch_norm: str = option(
        "none",
        "What of batch normalisation training leaves alone: nothing, its statistics, its weights too.",
        choices=("none", "statistics", "all"),
    )
    embedding_dim: int = option(512, "D, the embedding's length.", minimum=1)
    normalize: Optional[bool] = option(
        None, "Whether embeddings have unit length; default what the loss expects."
    )

    image_resize: Optional[int] = option(
        None,
        "Side in pixels that images are scaled to; default 256 for files, their own for images in memory.",
        minimum=1,
    )
    image_crop: Optional[int] = option(
        None,
        "Side in pixels of the random (evaluation: central) crop; default 224 for files, all in memory.",
        minimum=1,
    )
    image_shift: Optional[int] = option(
        None,
        "Pixels of mirrored border before the crop; default 0 for files, 1/12 of the side in memory.",
        minimum=0,
    )
    mirror: bool = option(True, "Whether training mirrors images left to right at random.")
    cache: str = option(
        "auto",
        "Where decoded pictures stay from epoch to epoch. auto: in memory if they take at most half of what "
        "is free, else on disk if --cache_dir is given, else nowhere.",
        choices=("auto", "none", "memory", "disk"),
    )
    cache_dir: Optional[str] = option(None, "Folder for files of decoded pictures (--cache=auto or disk).")

    learning_rate: float = option(
        1e-5, "Adam's learning rate; the paper takes 1e-4 for SOP, 1e-5 for CUB and Cars196.", above=0.0
    )
    head_multiplier: float = option(10.0, "Factor on the learning rate of the linear head.", minimum=0.0)
    beta_1: float = option(0.9, "Adam's decay of the first moment.", minimum=0.0)
    beta_2: float = option(0.99, "Adam's decay of the second moment.", minimum=0.0)

    epochs: int = option(100, "Epochs to train; with --resume it may be raised.", minimum=1)
    steps_per_epoch: Optional[int] = option(None, "Steps in an epoch; default ceil(N / B).", minimum=1)
    steps_per_execution: int = option(1, "Steps in one call of the train function; must divide M.", minimum=1)
    checkpoint_every_steps: Optional[int] = option(
        None, "Save the run's state every so many steps as well as after every epoch.", minimum=1
    )

    ks: tuple[int, ...] = option((1, 2, 4, 8), "The K of Recall@K.")
    evaluate_every: int = option(1, "Evaluate after every so many epochs, and after the last.", minimum=1)
    clustering: str = option(
        "best",
        "When NMI and F1 are computed, by k-means: at every evaluation, once for the best epoch, or never.",
        choices=("never", "best", "every_epoch"),
    )
    tensorboard: str = option(
        "scalars",
        "What tensorboard/ gets. scalars: the log's figures, and histograms of positive and negative "
        "distances. full: also queries with their nearest images at every evaluation, and the projector at "
        "the end.",
        choices=("none", "scalars", "full"),
    )
    patience: Optional[int] = option(
        None, "Stop after so many evaluations without a better Recall@K; default never.", minimum=1
    )

    distribute: str = option(
        "none",
        "Over what a batch is spread. mirrored: all GPUs of this machine. multi_worker: the machines that "
        "TF_CONFIG names. See docs/scaling_out.md.",
        choices=("none", "mirrored", "multi_worker"),
    )
    cpu_replicas: Optional[int] = option(
        None, "With --distribute=mirrored: so many replicas on the CPU, to try it without GPUs.", minimum=2
    )
    sync_batch_norm: bool = option(
        False,
        "Whether batch normalisation takes its statistics of the whole batch, not of each replica's part.",
    )
    precision: str = option(
        "float32",
        "What the backbone computes in; weights, embeddings and loss are float32 always.",
        choices=("float32", "mixed_bfloat16", "mixed_float16"),
    )
    jit_compile: bool = option(False, "Whether XLA compiles the training step.")

    def __post_init__(self) -> None:
        for spec in dataclasses.fields(self):
            check_range(spec, getattr(self, spec.name))
        object.__setattr__(self, "ks", whole_numbers("ks", self.ks))
        if not self.ks or min(self.ks) < 1:
            raise ValueError(f"`ks` must be whole numbers >= 1, got {list(self.ks)}.")
        for name in ("beta_1", "beta_2"):
            if getattr(self, name) >= 1.0:
                raise ValueError(f"`{name}` must be below 1, got {getattr(self, name)}.")
        if self.validation_classes is not None and self.validation_classes >= 1.0:
            raise ValueError(f"`validation_classes` must be below 1, got {self.validation_classes}.")
        if self.batch_size % self.images_per_class:
            raise ValueError(
                f"`batch_size` must be a multiple of `images_per_class` = {self.images_per_class}, "
                f"got {self.batch_size}."
            )
        if self.initial_run == "":
            raise ValueError("`initial_run` must name the folder of a run. Leave the flag out to begin anew.")
        if self.initial_run is not None and self.pretrained is not None:
            raise ValueError(
                f"`pretrained` must be left out with `initial_run`, got {self.pretrained}: its weights would "
                "be overwritten."
            )
        self._check_execution()

    def _check_execution(self) -> None:
        if self.mines_classes and self.steps_per_execution != 1:
            raise ValueError(
                f"`steps_per_execution` must be 1 with profs_hncm, got {self.steps_per_execution}: "
                "every step's embeddings are needed."
            )
        if self.cpu_replicas is not None and self.distribute != "mirrored":
            raise ValueError(
                f"`cpu_replicas` must be left out unless `distribute` is mirrored, got {self.cpu_replicas} "
                f"with {self.distribute}."
            )
        if self.jit_compile and self.distribute != "none":
            raise ValueError(
                f"`jit_compile` must be off with `distribute` {self.distribute}: XLA does not compile what "
                "replicas exchange."
            )
        if self.sync_batch_norm and self.precision == "mixed_bfloat16":
            raise ValueError(
                "`precision` must be float32 or mixed_float16 with `sync_batch_norm`, got mixed_bfloat16: "
                "Keras would add up the statistics in bfloat16, which spoils the variance."
            )

    @property
    def mines_classes(self) -> bool:
        """Whether batches are mined (HNCM)."""
        return self.method == "profs_hncm"

    @property
    def effective_proximal_weight(self) -> float:
        """lambda: 0 for the baseline."""
        return 0.0 if self.method == "baseline" else self.proximal_weight

    def to_json(self) -> str:
        """Returns all values as indented JSON."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Config":
        """Reads what `to_json` wrote.

        Raises:
            ValueError: if a value is out of range, or a name is unknown (written by another version).
        """
        values = json.loads(text)
        unknown = sorted(set(values) - {spec.name for spec in dataclasses.fields(cls)})
        if unknown:
            raise ValueError(f"The configuration has unknown names: {', '.join(unknown)}.")
        return cls(**values)


def whole_numbers(name: str, values: Iterable[Union[int, str]]) -> tuple[int, ...]:
    """Returns numbers or their texts as a tuple of int.

    Raises:
        ValueError: if one is not a whole number.
    """
    try:
        return tuple(int(value) for value in values)
    except ValueError as error:
        raise ValueError(
            f"`{name}` must be whole numbers separated by commas, got {','.join(map(str, values))}."
        ) from error


def check_range(spec: "dataclasses.Field[Any]", value: Any) -> None:
    """Raises ValueError if the value of a field is outside what `option` declared."""
    rules = spec.metadata
    if value is None or spec.name == "loss_options":
        return
    if rules["choices"] and value not in rules["choices"]:
        raise ValueError(f"`{spec.name}` must be one of {', '.join(rules['choices'])}, got {value!r}.")
    if isinstance(value, float) and not abs(value) < float("inf"):
        raise ValueError(f"`{spec.name}` must be finite, got {value}.")
    if rules["minimum"] is not None and value < rules["minimum"]:
        raise ValueError(f"`{spec.name}` must be >= {rules['minimum']}, got {value}.")
    if rules["above"] is not None and value <= rules["above"]:
        raise ValueError(f"`{spec.name}` must be > {rules['above']}, got {value}.")
