"""One vector for every class, which hard negative class mining searches.

Shapes: L classes, C classes in a batch, D embedding dimension, S classes asked about at once.
"""

from typing import Optional

import numpy as np

# Multiplications up to which OpenBLAS computes a matrix product in one thread. Training keeps all cores busy:
# to wait for another thread takes longer than a small product does.
_ONE_THREAD = 2**18
# Columns of a product that its inner loops take at once: as many cost little more than one.
_KERNEL_COLUMNS = 4


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

    @property
    def scan_width(self) -> Optional[int]:
        """How many classes to ask `remoteness` about at once, lest it wait for threads; None: all.

        A large memory's scan is worth its threads, and reading it once for many.
        """
        in_one_thread = _ONE_THREAD // self.embeddings.size
        return max(in_one_thread // _KERNEL_COLUMNS * _KERNEL_COLUMNS, 1) if in_one_thread else None

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
        products = self.embeddings @ self.embeddings[classes].T
        return np.subtract(half_squares, products.T, order="C")

    def copy(self) -> "ClassMemory":
        """Returns a memory of its own with the same content."""
        other = ClassMemory(*self.embeddings.shape)
        other.update(np.flatnonzero(self.seen), self.embeddings[self.seen])
        return other


def _half_squares(embeddings: np.ndarray) -> np.ndarray:
    # Products of a row with a column, which take half the time of einsum.
    return np.float32(0.5) * np.matmul(embeddings[:, None, :], embeddings[:, :, None])[:, 0, 0]
