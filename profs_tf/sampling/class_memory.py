"""One vector for every class, which hard negative class mining searches.

Shapes: L classes, C classes in a batch, D embedding dimension, S classes asked about at once.
"""

from typing import Optional

import numpy as np

# Multiplications up to which OpenBLAS computes a matrix product in one thread. Training keeps all cores busy:
# to wait for another thread takes longer than a small product does.
_ONE_THREAD = 2**18


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
        # Half the squared length; infinite for classes not seen, which puts them behind all others.
        self._half_squares: Optional[np.ndarray] = np.full(num_classes, np.inf, np.float32)

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
        self._read()
        return self._embeddings

    def _read(self) -> np.ndarray:
        """Reads what `replace` took over, not before it is needed: most of it never is.

        Returns:
            The half squares, float32 [L].
        """
        if self._half_squares is None:
            self._embeddings = np.asarray(self._embeddings)
            self._half_squares = _half_squares(self._embeddings)
        return self._half_squares

    def update(self, classes: np.ndarray, embeddings: np.ndarray) -> None:
        """Overwrites the embeddings of some classes; O(C D).

        Args:
            classes: int64 [C], all different.
            embeddings: float [C, D].
        """
        embeddings = np.asarray(embeddings, np.float32)
        half_squares = self._read()
        if not self._is_own:
            self._embeddings, self._is_own = self._embeddings.copy(), True
        self._embeddings[classes] = embeddings
        half_squares[classes] = _half_squares(embeddings)
        self.seen[classes] = True

    def remoteness(self, classes: np.ndarray) -> np.ndarray:
        """Returns how far all classes are from some; O(S L D).

        Args:
            classes: int64 [S], seen ones.

        Returns:
            float32 [S, L]: half the squared Euclidean distance, less a constant for each row; infinite for
            classes not seen.
        """
        half_squares = self._read()
        at_once = _ONE_THREAD // self._embeddings.size or max(len(classes), 1)
        remoteness = np.empty([len(classes), len(self.seen)], np.float32)
        for first in range(0, len(classes), at_once):
            part = slice(first, first + at_once)
            # This order of the factors is up to twice as fast as the other.
            products = self._embeddings @ self._embeddings[classes[part]].T
            np.subtract(half_squares, products.T, out=remoteness[part])
        return remoteness

    def copy(self) -> "ClassMemory":
        """Returns a memory of its own with the same content."""
        other = ClassMemory(*self.embeddings.shape)
        other.update(np.flatnonzero(self.seen), self.embeddings[self.seen])
        return other


def _half_squares(embeddings: np.ndarray) -> np.ndarray:
    return np.float32(0.5) * np.einsum("ld,ld->l", embeddings, embeddings)
