"""Float32 matrix products of blocks, by TensorFlow or by NumPy.

Shapes: n and m rows, D columns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Union

import numpy as np

from profs_tf.utils.checks import check_one_of

if TYPE_CHECKING:
    import tensorflow as tf

BACKENDS = ("auto", "numpy", "tensorflow")

# Rows of a block: of a tile of products the rows, or the columns.
BLOCK = 2048

# Floating point operations from which TensorFlow's products, which are faster on CPUs and can use a GPU, make
# up for the seconds of importing it.
_TENSORFLOW_FROM = 2e11


def block_slices(size: int) -> list[slice]:
    """Slices of so many rows, `BLOCK` each but for the last."""
    return [slice(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK)]


class NumpyProduct:
    """Products by NumPy."""

    def prepare(self, block: np.ndarray) -> np.ndarray:
        """The operand of `__call__` for a float32 block `[n, D]`."""
        return block

    def __call__(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Float32 `[n, m]`, the products of the rows of two prepared blocks; read-only."""
        return left @ right.T


class TensorFlowProduct:
    """Products by TensorFlow, on its default device."""

    def __init__(self) -> None:
        import tensorflow as tf

        self._tf = tf

    def prepare(self, block: np.ndarray) -> tf.Tensor:
        """The operand of `__call__` for a float32 block `[n, D]`, copied to the device."""
        return self._tf.constant(block)

    def __call__(self, left: tf.Tensor, right: tf.Tensor) -> np.ndarray:
        """Float32 `[n, m]`, the products of the rows of two prepared blocks; read-only."""
        product = self._tf.matmul(left, right, transpose_b=True)
        # A view of the host's memory, which `numpy()` would copy.
        return np.asarray(memoryview(product)) if "CPU" in product.device else product.numpy()

    @contextlib.contextmanager
    def in_full_precision(self) -> Iterator[None]:
        """Disables TensorFloat-32 on GPUs, whose 10 bits of mantissa break every error bound."""
        config = self._tf.config.experimental
        reduced = config.tensor_float_32_execution_enabled()
        config.enable_tensor_float_32_execution(False)
        try:
            yield
        finally:
            config.enable_tensor_float_32_execution(reduced)


Product = Union[NumpyProduct, TensorFlowProduct]
Prepared = Union[np.ndarray, "tf.Tensor"]
"""An operand: a block that `prepare` returned."""


@contextlib.contextmanager
def open_product(backend: str, operations: float) -> Iterator[Product]:
    """Selects the matmul backend.

    Args:
        backend: "numpy", "tensorflow" or "auto": TensorFlow for large inputs.
        operations: Floating point operations of all products together.

    Yields:
        A `NumpyProduct` or a `TensorFlowProduct`.

    Raises:
        ValueError: If `backend` is unknown.
    """
    check_one_of("backend", backend, BACKENDS)
    if backend == "numpy" or (backend == "auto" and operations < _TENSORFLOW_FROM):
        yield NumpyProduct()
        return
    product = TensorFlowProduct()
    with product.in_full_precision():
        yield product
