"""One vector for every class, which hard negative class mining searches.

Shapes: L classes, C classes in a batch, D embedding dimension, S classes asked about at once.
"""

from typing import Optional

import numpy as np

# Multiplications below which OpenBLAS computes a product in the calling thread: of two matrices, and of a
# matrix with a vector.
_ONE_THREAD = 2**18
_ONE_THREAD_VECTOR = 9216


class ClassMemory:
    """One embedding for each class, overwritten whenever its representative was in a batch.

    Or, for a loss that holds vectors of classes such as proxies, those vectors: `replace` then puts others in
    the place of all.

    No embedding is computed for it: the training step's own are kept (paper, section 4.2, hard negative
    class mining). After new representatives were drawn, the embedding of a class's former representative
    stays until the new one is seen: it is an image of the same class, seen by a network of a few steps ago,
    and says more about the class than nothing. A class that no batch held so far has no embedding and is
    nobody's neighbour.

    Attributes:
        seen: bool [L].
    """

    def __init__(self, num_classes: int, embedding_dim: int) -> None:
        """Makes an empty memory, 4 L D bytes."""
        self._embeddings = np.zeros([num_classes, embedding_dim], np.float32)
        self._is_own = True
        self.seen = np.zeros(num_classes, bool)
        # Half the squared length; infinite for classes not seen, which puts them behind all others. Kept up
        # from the first search on: a memory that is only written to, as the trainer's is, never needs it.
        self._half_squares: Optional[np.ndarray] = None

    def replace(self, embeddings: np.ndarray) -> None:
        """Takes over the embeddings of all classes, without a copy; O(L), and O(L D) once they are read.

        Args:
            embeddings: float32 [L, D], an array or a tensor, which must not change any more.
        """
        self._embeddings, self._half_squares, self._is_own = embeddings, None, False
        self.seen[:] = True

    @property
    def embeddings(self) -> np.ndarray:
        """Float32 [L, D]; rows of classes not seen are zero."""
        # What `replace` took over is read when it is needed: most of it never is.
        if not isinstance(self._embeddings, np.ndarray):
            self._embeddings = np.asarray(self._embeddings)
        return self._embeddings

    def update(self, classes: np.ndarray, embeddings: np.ndarray) -> None:
        """Overwrites the embeddings of some classes; O(C D).

        Args:
            classes: int64 [C], all different.
            embeddings: float [C, D].
        """
        embeddings = np.asarray(embeddings, np.float32)
        if not self._is_own:
            self._embeddings, self._is_own = self.embeddings.copy(), True
        self._embeddings[classes] = embeddings
        if self._half_squares is not None:
            self._half_squares[classes] = _half_squares(embeddings)
        self.seen[classes] = True

    def remoteness(self, classes: np.ndarray, left_out: Optional[np.ndarray] = None) -> np.ndarray:
        """Returns how far all classes are from some; O(S L D).

        Args:
            classes: int64 [S]; seen ones, for others the row says nothing.
            left_out: bool [L], classes to put as far away as those not seen.

        Returns:
            float32 [S, L]: half the squared Euclidean distance, less a constant for each row; infinite for
            classes not seen or left out.
        """
        if self._half_squares is None:
            self._half_squares = np.where(self.seen, _half_squares(self.embeddings), np.float32(np.inf))
        half_squares = self._half_squares
        if left_out is not None:
            half_squares = np.where(left_out, np.float32(np.inf), half_squares)
        # This order of the factors is up to twice as fast as the other.
        products = _products(self.embeddings, self.embeddings[classes].T)
        return np.subtract(half_squares, products.T, order="C")

    def copy(self) -> "ClassMemory":
        """Returns a memory of its own with the same content."""
        other = ClassMemory(*self.embeddings.shape)
        other.update(np.flatnonzero(self.seen), self.embeddings[self.seen])
        return other


def _half_squares(embeddings: np.ndarray) -> np.ndarray:
    # Products of a row with a column, which take half the time of einsum.
    return np.float32(0.5) * np.matmul(embeddings[:, None, :], embeddings[:, :, None])[:, 0, 0]


def _products(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Returns [L, D] @ [D, S], computed in the calling thread.

    In blocks of rows, each too small for OpenBLAS's threads. Once woken, these wait busily for the next
    product, for tens of milliseconds: far longer than a product takes, and taken from the training step.
    """
    depth, width = columns.shape
    limit = _ONE_THREAD if width > 1 else _ONE_THREAD_VECTOR
    # A product with a single row counts as one with a vector.
    height = max((limit - 1) // max(depth * width, 1), 2)
    if len(rows) <= height:
        return rows @ columns
    products = np.empty([len(rows), width], np.float32)
    whole = len(rows) // height * height
    np.matmul(
        rows[:whole].reshape(-1, height, depth), columns, out=products[:whole].reshape(-1, height, width)
    )
    # The last block is a whole one as well, some of which is known already.
    np.matmul(rows[-height:], columns, out=products[-height:])
    return products
