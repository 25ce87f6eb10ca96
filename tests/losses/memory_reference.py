"""Losses of queries and a memory's images as loops over their pairs, from the formulas alone."""

import numpy as np

from tests.losses.loss_reference import (
    closest,
    closest_of_each,
    distance_matrix,
    log_1p_sum_exp,
    log_sum_exp,
    mean,
    similarities,
)
from tests.losses.loss_reference import contrastive as of_contrastive
from tests.losses.loss_reference import lifted_structure as of_lifted_structure
from tests.losses.loss_reference import margin as of_margin
from tests.losses.loss_reference import multi_similarity as of_multi_similarity
from tests.losses.loss_reference import sup_con as of_sup_con
from tests.losses.loss_reference import triplet as of_triplet

BOUNDARY = float(np.float32(1.2))


def pairs_with(y, q, labels):
    pairs = [(i, j) for i in range(len(y)) for j in range(len(labels)) if q[i]]
    return [p for p in pairs if y[p[0]] == labels[p[1]]], [p for p in pairs if y[p[0]] != labels[p[1]]]


def hard(d, positives, negatives, q):
    if all(q):
        return closest(d, negatives, len(positives))
    return closest_of_each(d, positives, negatives, len(q))


def contrastive(E, y, q, M, labels):
    d, (positives, negatives) = distance_matrix(E, M), pairs_with(y, q, labels)
    chosen = hard(d, positives, negatives, q)
    total = sum(d[i][j] ** 2 for i, j in positives)
    total += sum(w * max(1.0 - d[i][k], 0.0) ** 2 for (i, k), w in chosen.items())
    count = len(positives) + sum(chosen.values())
    return total / count if count else 0.0


def margin(E, y, q, M, labels):
    d, (positives, negatives) = distance_matrix(E, M), pairs_with(y, q, labels)
    terms = [(1.0, d[i][j] - BOUNDARY + 0.2) for i, j in positives]
    terms += [(w, BOUNDARY + 0.2 - d[i][k]) for (i, k), w in hard(d, positives, negatives, q).items()]
    active = [(w, term) for w, term in terms if term > 0.0 and w > 0.0]
    return sum(w * term for w, term in active) / sum(w for w, _ in active) if active else 0.0


def triplet(E, y, q, M, labels):
    d, (positives, negatives) = distance_matrix(E, M), pairs_with(y, q, labels)
    terms = []
    for i, p in positives:
        others = [d[i][k] ** 2 for query, k in negatives if query == i]
        terms.append(max(d[i][p] ** 2 - min(others) + 0.2, 0.0) if others else 0.0)
    return mean(terms)


def lifted_structure(E, y, q, M, labels):
    d, (positives, negatives) = distance_matrix(E, M), pairs_with(y, q, labels)
    terms = []
    for i, j in positives:
        both = [1.0 - d[a][b] for a, b in negatives if a == i]
        both += [1.0 - d[a][b] for a, b in negatives if b == j]
        terms.append(max(0.0, log_sum_exp(both) + d[i][j]) ** 2 / 2 if both else 0.0)
    return mean(terms)


def multi_similarity(E, y, q, M, labels):
    s, (positives, negatives) = similarities(E, M), pairs_with(y, q, labels)
    terms = []
    for i in range(len(y)):
        own = [s[a][b] for a, b in positives if a == i]
        others = [s[a][b] for a, b in negatives if a == i]
        if not own and not others:
            continue
        kept_others = [value for value in others if own and value > min(own) - 0.1]
        kept_own = [value for value in own if others and value < max(others) + 0.1]
        pull = log_1p_sum_exp([-2.0 * (value - 0.5) for value in kept_own]) / 2.0
        terms.append(pull + log_1p_sum_exp([50.0 * (value - 0.5) for value in kept_others]) / 50.0)
    return mean(terms)


def sup_con(E, y, q, M, labels):
    s, (positives, negatives) = similarities(E, M), pairs_with(y, q, labels)
    terms = []
    for i in range(len(y)):
        own = [10.0 * s[a][b] for a, b in positives if a == i]
        others = [10.0 * s[a][b] for a, b in negatives if a == i]
        if own:
            terms.append(log_sum_exp(own + others) - mean(own))
    return mean(terms)


# Name -> the loss of a batch, and that of its queries and the memory.
REFERENCES = {
    "contrastive": (of_contrastive, contrastive),
    "lifted_structure": (of_lifted_structure, lifted_structure),
    "margin": (lambda E, y, q: of_margin(E, y, q, dict.fromkeys(y, BOUNDARY)), margin),
    "multi_similarity": (of_multi_similarity, multi_similarity),
    "sup_con": (of_sup_con, sup_con),
    "triplet": (of_triplet, triplet),
}
