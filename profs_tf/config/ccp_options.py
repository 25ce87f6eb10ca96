"""Options of a run: those of the method CCP."""

from dataclasses import dataclass
from typing import NamedTuple, Optional

from profs_tf.utils.option_fields import option


class CcpValues(NamedTuple):
    """The options of CCP without their prefix. The defaults are published, or those of the authors' code."""

    prototypes: int = 8
    pool_size: int = 12
    patience: int = 3
    start: str = "present"
    proximal_weight: float = 2e-4
    ordinary_weight: float = 0.1
    prototype_multiplier: float = 1.0
    validation_classes: float = 0.25


@dataclass(frozen=True)
class CcpOptions:
    """The part of `Config` that only the method CCP has; None stands for its default."""

    ccp_prototypes: Optional[int] = option(
        None,
        "K, prototypes of each training class. A class with fewer images has all of them, and some more than "
        "once. Default: 8; 4 were published for classes of few images (SOP).",
        minimum=1,
    )
    ccp_pool_size: Optional[int] = option(
        None,
        "b, images of each class from which its prototypes are chosen when a projection begins; at least "
        "--ccp_prototypes. Default: 12, or --ccp_prototypes if more; 7 were published with 4 prototypes.",
        minimum=1,
    )
    ccp_patience: Optional[int] = option(
        None,
        "A projection ends after so many evaluations in a row without a higher MAP@R on the validation "
        "classes. Default: 3; the published evaluations are 25 steps apart (--steps_per_epoch=25).",
        minimum=1,
    )
    ccp_start: Optional[str] = option(
        None,
        "The weights that a projection starts from. present: those that training has reached, as in the "
        "authors' code. best: those of the best evaluation of the projection before. Default: present.",
        choices=("present", "best"),
    )
    ccp_proximal_weight: Optional[float] = option(
        None,
        "lambda, weight of the pull towards the best weights of the projection before; the first projection "
        "has none. In place of --proximal_weight. Default: 2e-4.",
        minimum=0.0,
    )
    ccp_ordinary_weight: Optional[float] = option(
        None, "Weight of the ordinary loss within the batch, which is added. Default: 0.1.", minimum=0.0
    )
    ccp_prototype_multiplier: Optional[float] = option(
        None,
        "Factor on the learning rate of the prototypes; 0 keeps them as they were chosen. Default: 1.",
        minimum=0.0,
    )
    ccp_validation_classes: Optional[float] = option(
        None,
        "Fraction of the training classes that is held out of training to tell when a projection ends. The "
        "classes of --validation_classes and the test classes play no part in it. Default: 0.25.",
        above=0.0,
    )

    @property
    def ccp(self) -> CcpValues:
        """These options, with what None stands for filled in."""
        given = {name: getattr(self, f"ccp_{name}") for name in CcpValues._fields}
        values = CcpValues(**{name: value for name, value in given.items() if value is not None})
        if self.ccp_pool_size is None:
            return values._replace(pool_size=max(values.pool_size, values.prototypes))
        return values
