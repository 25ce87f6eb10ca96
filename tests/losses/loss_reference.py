"""The losses once more, as plain loops over pairs in NumPy's float64, written from their formulas.

Arguments: `E` [B, D] float64, `y` labels, `q` which images may be a query. Each returns a float.
"""

import math

import numpy as np


def distance_matrix(E, others=None):
    """From the differences themselves, not from inner products as in the package."""
    others = E if others is None else others
    return np.sqrt(np.sum((E[:, np.newaxis] - others) ** 2, axis=2)).tolist()


def similarities(E, others=None):
    others = E if others is None else others
    return np.sum(E[:, np.newaxis] * others, axis=2).tolist()


def log_sum_exp(values):
    peak = max(values)
    return peak + math.log(sum(math.exp(value - peak) for value in values))


def log_1p_sum_exp(values):
    return log_sum_exp([0.0, *values])


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def pairs_of(y, q, representative_pairs=True):
    """The ordered pairs (i, j), i != j, with a query i: positive ones, negative ones."""
    size = len(y)
    pairs = [(i, j) for i in range(size) for j in range(size) if i != j and q[i]]
    if not representative_pairs and not all(q):
        pairs = [(i, j) for i, j in pairs if not q[j]]
    return [p for p in pairs if y[p[0]] == y[p[1]]], [p for p in pairs if y[p[0]] != y[p[1]]]


def closest(d, candidates, count):
    """{pair: weight} of the `count` closest candidates; the last places are shared by those that tie."""
    in_order = sorted(candidates, key=lambda pair: d[pair[0]][pair[1]])[:count]
    if not in_order:
        return {}
    last = d[in_order[-1][0]][in_order[-1][1]]
    chosen = {(i, k): 1.0 for i, k in in_order if d[i][k] < last}
    tied = [(i, k) for i, k in candidates if d[i][k] == last]
    return {**chosen, **{pair: (len(in_order) - len(chosen)) / len(tied) for pair in tied}}


def closest_of_each(d, positives, negatives, num_queries):
    chosen = {}
    for i in range(num_queries):
        own = [pair for pair in negatives if pair[0] == i]
        chosen.update(closest(d, own, sum(1 for pair in positives if pair[0] == i)))
    return chosen


def hard_negatives(d, y, q, per_query=False, representative_pairs=True):
    positives, negatives = pairs_of(y, q, representative_pairs)
    if all(q) and not per_query:
        return closest(d, negatives, len(positives))
    return closest_of_each(d, positives, negatives, len(y))


def contrastive(E, y, q, margin=1.0, mining="hard", representative_pairs=True):
    d = distance_matrix(E)
    positives, negatives = pairs_of(y, q, representative_pairs)
    if mining == "all":
        chosen = {(i, k): 1.0 for i, k in negatives if d[i][k] < margin}
    else:
        chosen = hard_negatives(d, y, q, mining == "hard_per_query", representative_pairs)
    total = sum(d[i][j] ** 2 for i, j in positives)
    total += sum(w * max(margin - d[i][k], 0.0) ** 2 for (i, k), w in chosen.items())
    count = len(positives) + sum(chosen.values())
    return total / count if count else 0.0


def triplet(E, y, q, margin=0.2, mining="hard", representative_pairs=True):
    d_sq = [[value**2 for value in row] for row in distance_matrix(E)]
    positives, negative_pairs = pairs_of(y, q, representative_pairs)
    terms = []
    for i, p in positives:
        negatives = [d_sq[i][k] for query, k in negative_pairs if query == i]
        if not negatives:
            terms.append(0.0)
            continue
        candidates = negatives
        if mining == "semi_hard":
            candidates = [value for value in negatives if value > d_sq[i][p]] or [max(negatives)]
        negative = min(candidates)
        terms.append(max(d_sq[i][p] - negative + margin, 0.0))
    return mean(terms)


def margin(E, y, q, boundaries, margin=0.2, mining="hard", chosen=None, representative_pairs=True):
    """`boundaries`: one for each label, by label; `chosen`: {pair: weight} of the negatives, or by mining."""
    d = distance_matrix(E)
    positives, negatives = pairs_of(y, q, representative_pairs)
    if mining == "all":
        chosen = dict.fromkeys(negatives, 1.0)
    elif chosen is None:
        chosen = hard_negatives(d, y, q, mining == "hard_per_query", representative_pairs)
    terms = [(1.0, d[i][j] - boundaries[y[i]] + margin) for i, j in positives]
    terms += [(w, boundaries[y[i]] + margin - d[i][k]) for (i, k), w in chosen.items()]
    active = [(w, term) for w, term in terms if term > 0.0 and w > 0.0]
    return sum(w * term for w, term in active) / sum(w for w, _ in active) if active else 0.0


def counted(i, k, q, representative_pairs):
    """Whether i or k is a query, and both only if such pairs count."""
    return bool(q[i] or q[k]) and (representative_pairs or all(q) or not (q[i] and q[k]))


def lifted_structure(E, y, q, margin=1.0, representative_pairs=True):
    d = distance_matrix(E)
    size = len(y)

    def negatives(i):
        others = [k for k in range(size) if counted(i, k, q, representative_pairs)]
        return [margin - d[i][k] for k in others if y[k] != y[i]]

    terms = []
    for i in range(size):
        for j in range(i + 1, size):
            if y[i] == y[j] and counted(i, j, q, representative_pairs):
                both = negatives(i) + negatives(j)
                structure = log_sum_exp(both) + d[i][j] if both else 0.0
                terms.append(max(0.0, structure) ** 2 / 2)
    return mean(terms)


def tuple_negatives(i, y, q):
    return [k for k in range(len(y)) if y[k] != y[i] and (all(q) or not q[k])]


def n_pair(E, y, q, l2_weight=0.002):
    s = similarities(E)
    positives, _ = pairs_of(y, q)
    terms = [log_1p_sum_exp([s[i][k] - s[i][j] for k in tuple_negatives(i, y, q)]) for i, j in positives]
    norms_sq = [float(np.sum(a**2)) for a in E]
    norms = mean(norms_sq[i] for i in {i for i, _ in positives})
    norms += mean(norms_sq[j] for j in {j for _, j in positives})
    return mean(terms) + l2_weight * norms / 4


def angular(E, y, q, angle=45.0, n_pair_weight=0.0, l2_weight=0.002):
    s = similarities(E)
    tan_sq = math.tan(math.pi * angle / 180) ** 2
    positives, _ = pairs_of(y, q)
    terms = []
    for i, j in positives:
        exponents = [
            4 * tan_sq * (s[i][k] + s[j][k]) - 2 * (1 + tan_sq) * s[i][j] for k in tuple_negatives(i, y, q)
        ]
        terms.append(log_1p_sum_exp(exponents))
    return mean(terms) + (n_pair_weight * n_pair(E, y, q, l2_weight) if n_pair_weight else 0.0)


def multi_similarity(E, y, q, alpha=2.0, beta=50.0, base=0.5, eps=0.1, representative_pairs=True):
    s = similarities(E)
    size = len(y)
    terms = []
    for i in range(size):
        pairs = [k for k in range(size) if k != i and counted(i, k, q, representative_pairs)]
        if not pairs:
            continue
        positives = [s[i][k] for k in pairs if y[k] == y[i]]
        negatives = [s[i][k] for k in pairs if y[k] != y[i]]
        kept_negatives = [value for value in negatives if positives and value > min(positives) - eps]
        kept_positives = [value for value in positives if negatives and value < max(negatives) + eps]
        pull = log_1p_sum_exp([-alpha * (value - base) for value in kept_positives]) / alpha
        push = log_1p_sum_exp([beta * (value - base) for value in kept_negatives]) / beta
        terms.append(pull + push)
    return mean(terms)


def sup_con(E, y, q, temperature=0.1, representative_pairs=True):
    s = similarities(E)
    positives, negatives = pairs_of(y, q, representative_pairs)
    terms = []
    for i in range(len(y)):
        own = [s[i][j] / temperature for query, j in positives if query == i]
        others = [s[i][j] / temperature for query, j in positives + negatives if query == i]
        if own:
            terms.append(mean(log_sum_exp(others) - value for value in own))
    return mean(terms)


_MASK, _GOLDEN = 2**64 - 1, 0x9E3779B97F4A7C15


def _mixed(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def embedding_hash(vector, seed):
    """In Python's own integers, modulo 2^64."""
    bits = vector.view(np.int64 if vector.dtype == np.float64 else np.int32).tolist()
    factors = [_mixed(((place + seed) * _GOLDEN) & _MASK) | 1 for place in range(1, len(bits) + 1)]
    return _mixed(sum(word * factor for word, factor in zip(bits, factors)) & _MASK)


def pair_uniform(hash_a, hash_b):
    return (_mixed((hash_a * _GOLDEN + hash_b) & _MASK) >> 11) / 2**53


def draw_log_weights(d, dimensions):
    """{k: log 1/q(d_k)} of the candidates {k: d_k} for distance-weighted drawing."""

    def log_weight(value):
        c = max(value, 0.5)
        return -((dimensions - 2) * math.log(c) + (dimensions - 3) / 2 * math.log(1 - c * c / 4))

    within = {k: log_weight(value) for k, value in d.items() if value <= 1.4}
    return within or dict.fromkeys(d, 0.0)


def distance_weighted_negatives(E, y, q, seed=0):
    """{pair: how often it was drawn}; `E` in the dtype in which the loss is computed."""
    size, dimensions = E.shape
    d_sq = np.square(distance_matrix(E.astype(np.float64))).astype(E.dtype)
    distances = np.sqrt(d_sq).astype(np.float64)
    hashes = [embedding_hash(vector, seed) for vector in E]
    drawn = {}
    for i, p in pairs_of(y, q)[0]:
        d = {k: float(distances[i, k]) for k in range(size) if y[k] != y[i]}
        if not d:
            continue
        log_weights = draw_log_weights(d, dimensions)
        peak = max(log_weights.values())
        in_order = sorted(log_weights, key=lambda k: (d[k], k))
        weights = [math.exp(log_weights[k] - peak) for k in in_order]
        aim = pair_uniform(hashes[i], hashes[p]) * sum(weights)
        place = 0
        while place < len(weights) - 1 and aim >= weights[place]:
            aim -= weights[place]
            place += 1
        pair = (i, in_order[place])
        drawn[pair] = drawn.get(pair, 0.0) + 1.0
    return drawn
