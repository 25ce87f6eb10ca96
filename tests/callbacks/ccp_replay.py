"""CCP on a linear embedder in float64: the whole procedure again, in NumPy and plain loops.

The embedder is E = z / ||z||, z = W x. Prototypes are compared at unit length. The loss is the contrastive
loss of all pairs: against prototypes, plus a part of that within the batch.
"""

import numpy as np

from tests.sampling.ccp.k_center_loops import k_center_of_class


def normalized(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def gradient_through_normalization(vectors, gradient):
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit = vectors / lengths
    return (gradient - unit * np.sum(unit * gradient, axis=-1, keepdims=True)) / lengths


def contrastive_gradients(E, labels, others, other_labels, margin, is_same_list):
    """Returns the gradients of the mean over all positive pairs and the negative pairs within the margin."""
    of_rows, of_columns, count = np.zeros_like(E), np.zeros_like(others), 0
    for i in range(len(E)):
        for j in range(len(others)):
            if is_same_list and i == j:
                continue
            difference = E[i] - others[j]
            distance = np.linalg.norm(difference)
            if labels[i] == other_labels[j]:
                slope = 2.0 * difference
            elif distance < margin:
                slope = -2.0 * (margin - distance) * difference / distance
            else:
                continue
            count += 1
            of_rows[i] += slope
            of_columns[j] -= slope
    return of_rows / count, of_columns / count


def map_at_r(E, labels):
    scores = []
    for i in range(len(E)):
        distances = np.linalg.norm(E - E[i], axis=1)
        distances[i] = np.inf
        relevant = int(np.sum(labels == labels[i])) - 1
        hits = labels[np.argsort(distances)[:relevant]] == labels[i]
        scores.append(sum(hits[: rank + 1].mean() for rank in range(relevant) if hits[rank]) / relevant)
    return float(np.mean(scores))


class Replay:
    """The state of the procedure after each epoch.

    Args:
        W: The embedder's kernel [C, D] at the start.
        train: (features [N, C], labels [N]).
        validation: Likewise, of other classes.
        batch_of: From a step to the image indices of its batch.
        pool_of: From k to the pool [L, b] of image indices.
        options: K, patience, start, lambda, weight of the ordinary loss, margin, learning rate.
    """

    def __init__(self, W, train, validation, batch_of, pool_of, **options):
        self.W, self.train, self.validation = W.copy(), train, validation
        self.batch_of, self.pool_of, self.options = batch_of, pool_of, options
        self.k, self.step = 0, 0
        self.anchor = self.W.copy()
        self.best, self.stale = -np.inf, 0
        self.prototypes = self.chosen_prototypes(None)

    def embed(self, features):
        return normalized(features @ self.W)

    def chosen_prototypes(self, covered):
        rows = []
        for label, images in enumerate(self.pool_of(self.k)):
            points = self.embed(self.train[0][images])
            before = () if covered is None else covered[label]
            rows.append(points[k_center_of_class(points, self.options["K"], before)])
        return np.stack(rows)

    def take_step(self):
        options, x = self.options, self.train[0][self.batch_of(self.step)]
        labels = self.train[1][self.batch_of(self.step)]
        z = x @ self.W
        E = normalized(z)
        L, K, D = self.prototypes.shape
        flat = self.prototypes.reshape(L * K, D)
        of_images, of_prototypes = contrastive_gradients(
            E, labels, normalized(flat), np.repeat(np.arange(L), K), options["margin"], False
        )
        first, second = contrastive_gradients(E, labels, E, labels, options["margin"], True)
        of_images += options["ordinary"] * (first + second)
        gradient = x.T @ gradient_through_normalization(z, of_images)
        if self.k > 0:
            gradient += options["lambda"] * (self.W - self.anchor)
        self.W = self.W - options["rate"] * gradient
        of_prototypes = gradient_through_normalization(flat, of_prototypes).reshape(L, K, D)
        self.prototypes = self.prototypes - options["rate"] * of_prototypes
        self.step += 1

    def end_epoch(self):
        """Returns whether a projection ended."""
        score = map_at_r(self.embed(self.validation[0]), self.validation[1])
        if score > self.best + 1e-5:
            self.best, self.stale = score, 0
            self.best_W, self.best_prototypes = self.W.copy(), normalized(self.prototypes)
        else:
            self.stale += 1
        if self.stale < self.options["patience"]:
            return False
        self.k += 1
        self.anchor = self.best_W.copy()
        if self.options["start"] == "best":
            self.W = self.best_W.copy()
        self.prototypes = self.chosen_prototypes(self.best_prototypes)
        self.best, self.stale = -np.inf, 0
        return True
