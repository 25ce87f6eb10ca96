"""What `rank_positives` computes, by every distance of one query after another."""

import numpy as np


def rank_by_sorting(queries, classes, gallery=None, gallery_classes=None, margin=0.0):
    """First ranks, average precisions and R-precisions, 0 for queries without a positive.

    `margin` [Q, N] is by how much farther (squared) than a positive a negative is that still ties with it.
    Integer embeddings have exact distances and need none.
    """
    own_set = gallery is None
    gallery, gallery_classes = (queries, classes) if own_set else (gallery, gallery_classes)
    distances_sq = ((queries[:, None] - gallery[None]) ** 2).sum(axis=-1)
    keys = distances_sq - np.where(gallery_classes == np.asarray(classes)[:, None], 0, margin)
    results = []
    for query, row in enumerate(keys):
        others = [i for i in range(len(gallery)) if not (own_set and i == query)]
        is_positive = {i: gallery_classes[i] == classes[query] for i in others}
        # False sorts before True: ties rank the negative first.
        order = sorted(others, key=lambda i: (row[i], is_positive[i]))
        ranks = [rank for rank, i in enumerate(order, start=1) if is_positive[i]]
        within = [(number, rank) for number, rank in enumerate(ranks, start=1) if rank <= len(ranks)]
        average = sum(number / rank for number, rank in within) / max(len(ranks), 1)
        results.append((ranks[0] if ranks else 0, average, len(within) / max(len(ranks), 1)))
    return tuple(np.array(values) for values in zip(*results))


def tie_margin(queries, gallery):
    """The documented tolerance of ties, `[Q, N]`."""
    norms_sq = [((part - gallery.mean(axis=0)) ** 2).sum(axis=1) for part in (queries, gallery)]
    return 1e-12 * (norms_sq[0][:, None] + norms_sq[1])
