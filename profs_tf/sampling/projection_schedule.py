"""When projections begin, and how many steps M they have (paper, section 5.4.1)."""

from dataclasses import dataclass
from typing import Optional

from profs_tf.utils.checks import check_count


def classes_in_batch(batch_size: int, images_per_class: int, num_classes: int) -> int:
    """Returns ``C = min(B // I, L)``, the number of classes in a batch.

    Raises:
        ValueError: If `batch_size` is not a positive multiple of `images_per_class`, both whole numbers.
    """
    batch_size = check_count("batch_size", batch_size)
    images_per_class = check_count("images_per_class", images_per_class)
    if batch_size % images_per_class:
        nearest = max(1, round(batch_size / images_per_class)) * images_per_class
        raise ValueError(
            f"`batch_size` must be a multiple of `images_per_class` = {images_per_class}, "
            f"got {batch_size}; the nearest is {nearest}."
        )
    return min(batch_size // images_per_class, num_classes)


def derive_steps_per_projection(
    num_classes: int, classes_per_batch: int, representative_uses: int = 6
) -> int:
    """Returns ``M = ceil(rho / p)`` with ``p = C / L``, the rule of section 5.4.1, in whole numbers.

    Args:
        num_classes: L, classes of the training split.
        classes_per_batch: C, classes in a batch.
        representative_uses: rho, how often a representative is used on average in one projection.

    Returns:
        M, optimizer steps in a projection; at least 1.

    Raises:
        ValueError: If an argument is not a whole number of at least 1.
    """
    num_classes = check_count("num_classes", num_classes)
    classes_per_batch = check_count("classes_per_batch", classes_per_batch)
    representative_uses = check_count("representative_uses", representative_uses)
    return -(-representative_uses * num_classes // classes_per_batch)


@dataclass(frozen=True)
class Schedule:
    """Projection k has the steps ``k * M`` to ``(k + 1) * M - 1``; steps count from 0.

    Attributes:
        steps_per_projection: M.
    """

    steps_per_projection: int

    def __post_init__(self) -> None:
        steps = check_count("steps_per_projection", self.steps_per_projection)
        object.__setattr__(self, "steps_per_projection", steps)

    def projection_index(self, step: int) -> int:
        """Returns k, the projection of a step."""
        return step // self.steps_per_projection

    def begins_projection(self, step: int) -> bool:
        """Whether the anchor weights are swapped, and new representatives drawn, before this step."""
        return step % self.steps_per_projection == 0

    def check_strides(
        self, steps_per_execution: int, steps_per_epoch: Optional[int] = None, first_step: int = 0
    ) -> None:
        """Checks that no call of the train function steps over a swap.

        Args:
            steps_per_execution: Steps in one call of the train function.
            steps_per_epoch: Steps in an epoch, or None if unknown.
            first_step: The step that the first call begins with.

        Raises:
            ValueError: If `steps_per_execution` does not divide M, `steps_per_epoch` or `first_step`.
        """
        if steps_per_execution < 1 or self.steps_per_projection % steps_per_execution:
            divisors = [
                d for d in range(1, self.steps_per_projection + 1) if self.steps_per_projection % d == 0
            ]
            shown = ", ".join(map(str, divisors[:12]))
            raise ValueError(
                f"`steps_per_execution` must divide `steps_per_projection` = {self.steps_per_projection}, "
                f"got {steps_per_execution}; possible are {shown}."
            )
        if steps_per_epoch and steps_per_epoch % steps_per_execution:
            raise ValueError(
                f"`steps_per_epoch` must be a multiple of `steps_per_execution` = {steps_per_execution}, "
                f"got {steps_per_epoch}: the last call of an epoch would be shorter and miss a swap."
            )
        if first_step % steps_per_execution:
            raise ValueError(
                f"`steps_per_execution` must divide the {first_step} steps that the model has taken, got "
                f"{steps_per_execution}: projections would begin within a call. Compile with another one."
            )
