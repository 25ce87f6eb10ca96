"""Type hints for array arguments; needs no TensorFlow."""

from collections.abc import Sequence
from typing import Protocol, Union

import numpy as np


class Array(Protocol):
    """The interface that NumPy arrays, eager tensors and columns of data frames have in common."""

    def __len__(self) -> int: ...

    def __array__(self) -> np.ndarray: ...


Labels = Union[Array, Sequence[Union[int, float, str, bytes]]]
"""One label per image: `[N]`."""
