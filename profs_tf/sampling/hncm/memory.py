"""One vector for every class, which hard negative class mining (HNCM) searches.

Shapes: L classes, C classes in a batch, D embedding dimension, S classes searched from at once.
"""

from typing import Optional

import numpy as np

# Multiplications below which OpenBLAS stays in the calling thread: for two matrices, and for a matrix and a
# vector.
_ONE_THREAD = 2**18
_ONE_THREAD_VECTOR = 9216


class ClassMemory:
    """The last embedding of each class's representative.

    The training step computes these embeddings anyway, so they cost nothing (paper, section 4.2, hard
    negative class mining). After a swap, a class keeps the embedding of its former representative until the
    new one is seen: another image of the class is better than none. A class that was in no batch so far has
    no embedding, and is no class's neighbor.

    For a loss with prototypes, such as proxies, `replace` stores these instead.

    Attributes:
        seen: bool [L].
    """

    def __init__(self, num_classes: int, embedding_dim: int) -> None:
        """Creates an empty memory of 4 L D bytes."""
        self._embeddings = np.zeros([num_classes, embedding_dim], np.float32)
        self._is_own = self._is_checked = True
        self.seen = np.zeros(num_classes, bool)
        # Half the squared norm; infinite for unseen classes, which ranks them last. Kept up to date from the
        # first search on: a memory that is only written to, such as the trainer's, does not need it.
        self._half_norms_sq: Optional[np.ndarray] = None

    def replace(self, embeddings: np.ndarray) -> None:
        """Stores the embeddings of all classes without a copy; O(L), and O(L D) when they are read.

        Args:
            embeddings: float32 [L, D], an array or a tensor that never changes. If a value is not finite,
                reading them raises ValueError.
        """
        self._embeddings, self._half_norms_sq, self._is_own = embeddings, None, False
        self._is_checked = False
        self.seen[:] = True

    @property
    def embeddings(self) -> np.ndarray:
        """Float32 [L, D]; rows of unseen classes are zero.

        Raises:
            ValueError: If those that `replace` stored are not all finite.
        """
        # Read and checked on demand: most of what `replace` stores is never read.
        if not self._is_checked:
            self._embeddings = np.asarray(self._embeddings)
            _check_finite(self._embeddings, np.arange(len(self._embeddings)))
            self._is_checked = True
        return self._embeddings

    def update(self, classes: np.ndarray, embeddings: np.ndarray) -> None:
        """Overwrites the embeddings of some classes; O(C D).

        Args:
            classes: int64 [C], all different.
            embeddings: float [C, D].

        Raises:
            ValueError: If an embedding is not finite; the memory stays as it was.
        """
        embeddings = np.asarray(embeddings, np.float32)
        _check_finite(embeddings, classes)
        if not self._is_own:
            self._embeddings, self._is_own = self.embeddings.copy(), True
        self._embeddings[classes] = embeddings
        if self._half_norms_sq is not None:
            self._half_norms_sq[classes] = _half_squared_norms(embeddings)
        self.seen[classes] = True

    def relative_distances(self, classes: np.ndarray, excluded: Optional[np.ndarray] = None) -> np.ndarray:
        """Returns the distances of all classes from some, up to a constant for each row; O(S L D).

        Args:
            classes: int64 [S], seen classes; the rows of unseen ones mean nothing.
            excluded: bool [L], classes to rank last like those not seen.

        Returns:
            float32 [S, L]: half the squared Euclidean distance less half the squared norm of the row's class;
            infinite for unseen and excluded classes.
        """
        if self._half_norms_sq is None:
            self._half_norms_sq = np.where(
                self.seen, _half_squared_norms(self.embeddings), np.float32(np.inf)
            )
        half_norms_sq = self._half_norms_sq
        if excluded is not None:
            half_norms_sq = np.where(excluded, np.float32(np.inf), half_norms_sq)
        # This order of the factors is up to twice as fast as the other.
        products = _products(self.embeddings, self.embeddings[classes].T)
        return np.subtract(half_norms_sq, products.T, order="C")

    def copy(self) -> "ClassMemory":
        """Returns an independent copy."""
        other = ClassMemory(*self.embeddings.shape)
        other.update(np.flatnonzero(self.seen), self.embeddings[self.seen])
        return other


def _check_finite(embeddings: np.ndarray, classes: np.ndarray) -> None:
    finite = np.isfinite(embeddings).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"`embeddings` must be finite, got NaN or infinite values for {np.count_nonzero(~finite)} of "
            f"{len(finite)} classes, the first is class {np.asarray(classes)[np.argmin(finite)]}. "
            "Lower the learning rate, or go on from a checkpoint before this step."
        )


def _half_squared_norms(embeddings: np.ndarray) -> np.ndarray:
    # Products of a row and a column take half the time of einsum.
    return np.float32(0.5) * np.matmul(embeddings[:, None, :], embeddings[:, :, None])[:, 0, 0]


def _products(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Returns [L, D] @ [D, S], computed in the calling thread.

    Blocks of rows are too small for OpenBLAS to use its threads. Once woken, these wait busily for the next
    product, for tens of milliseconds: far longer than a product takes, and at the training step's expense.
    """
    depth, width = columns.shape
    limit = _ONE_THREAD if width > 1 else _ONE_THREAD_VECTOR
    # OpenBLAS treats a single row as a vector.
    height = max((limit - 1) // max(depth * width, 1), 2)
    if len(rows) <= height:
        return rows @ columns
    products = np.empty([len(rows), width], np.float32)
    whole = len(rows) // height * height
    np.matmul(
        rows[:whole].reshape(-1, height, depth), columns, out=products[:whole].reshape(-1, height, width)
    )
    # The last block is a whole one too, and overlaps the one before it.
    np.matmul(rows[-height:], columns, out=products[-height:])
    return products
