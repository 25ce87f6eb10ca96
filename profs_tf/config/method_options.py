"""Options of a run: the method, its batches, projections, mining and penalty."""

from dataclasses import dataclass
from typing import Optional

from profs_tf.sampling.batch_sampler import CLASS_DRAWS
from profs_tf.sampling.hncm.selection import STRATEGIES
from profs_tf.sampling.representatives import REPRESENTATIVE_DRAWS
from profs_tf.utils.option_fields import option

METHODS = ("baseline", "proximal", "profs", "profs_hncm", "ccp")


@dataclass(frozen=True)
class MethodOptions:
    """The part of `Config` that the method and its batches depend on."""

    method: str = option(
        "profs",
        "profs: representatives, anchor weights and proximal penalty. profs_hncm: also hard negative class "
        "mining. baseline: ordinary batches, no penalty. proximal: ordinary batches, and the penalty alone. "
        "ccp: the authors' later method; prototypes chosen among images, and projections that end on a "
        "plateau of validation (docs/ccp.md).",
        choices=METHODS,
    )
    batch_size: int = option(128, "B, images in a batch; a multiple of --images_per_class.", minimum=1)
    images_per_class: int = option(
        2, "I, images of each class in a batch, the representative included.", minimum=1
    )
    representative_uses: int = option(
        6, "rho, uses of each representative in a projection; determines M.", minimum=1
    )
    steps_per_projection: Optional[int] = option(
        None,
        "M, steps per projection: between two updates of anchor and representatives. Default: ceil(rho L / "
        "C).",
        minimum=1,
    )
    projection_end: str = option(
        "steps",
        "When a projection ends. steps: after M steps. plateau: when the training loss no longer falls, and "
        "after --steps_per_projection steps at the latest (default: 10 times M); not with profs_hncm.",
        choices=("steps", "plateau"),
    )
    projection_patience: Optional[int] = option(
        None,
        "With --projection_end=plateau: a projection ends after so many stretches of ceil(L / C) steps in a "
        "row whose mean loss is not below its lowest one. Default: 2.",
        minimum=1,
    )
    representative_draw: str = option(
        "uniform",
        "uniform: drawn independently for each projection. cyclic: an image is drawn again only after all "
        "others of its class.",
        choices=REPRESENTATIVE_DRAWS,
    )
    representative_pairs: bool = option(
        True,
        "Whether the loss counts pairs of two representatives. If not, it counts those of a representative "
        "and another image only, as the N-pair and the angular loss always do.",
    )
    fix_representative_augmentation: bool = option(
        False,
        "Whether a representative is cropped and flipped in the same way throughout its projection, instead "
        "of anew in every batch.",
    )
    class_draw: str = option(
        "independent",
        "The classes of each batch. independent: drawn anew. rounds: every class is in a batch before any is "
        "in another, except that the last batch of a round is filled up; not with profs_hncm.",
        choices=CLASS_DRAWS,
    )
    hard_classes_per_seed: int = option(
        3, "h, with profs_hncm: nearest classes that each seed class adds to the batch.", minimum=1
    )
    mining_strategy: str = option(
        "nearest",
        "With profs_hncm. nearest: each seed's nearest classes. greedy: repeatedly the class nearest to "
        "any in the batch.",
        choices=STRATEGIES,
    )
    mining_lag: int = option(
        4,
        "With profs_hncm: steps between the newest embeddings used and the batch mined from them; with "
        "--projection_end=plateau: between the newest loss used and the batch that depends on it.",
        minimum=1,
    )
    proximal_weight: float = option(
        1e-3, "lambda, weight of the proximal penalty: the pull towards the anchor weights.", minimum=0.0
    )
    first_projection_pull: bool = option(
        True,
        "Whether the first projection of a run is pulled towards the weights it starts from, as the others "
        "are. If not, lambda is 0 in its M steps: for random weights, which are no solution to stay near.",
    )
    proximal_decay: float = option(
        1.0,
        "Factor on lambda after every epoch; below 1 lambda decays, as section 5.4.2 of the paper suggests.",
        above=0.0,
    )

    @property
    def mines_classes(self) -> bool:
        """Whether batches are mined (HNCM)."""
        return self.method == "profs_hncm"
