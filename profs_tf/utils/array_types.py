"""Types of what users hand over as arrays, for hints; needs no TensorFlow."""

from collections.abc import Sequence
from typing import Protocol, Union

import numpy as np


class Array(Protocol):
    """What NumPy's arrays, TensorFlow's eager tensors and columns of tables have in common."""

    def __len__(self) -> int: ...

    def __array__(self) -> np.ndarray: ...


Labels = Union[Array, Sequence[Union[int, float, str, bytes]]]
"""One label an image: `[N]`."""
