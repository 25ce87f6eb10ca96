"""The losses with prototypes once more, as plain loops in NumPy's float64, written from their formulas.

Arguments: `E` [B, D] float64, `y` labels, `q` which images may be a query. Each returns a float.
"""

import math

import numpy as np

from tests.losses.loss_reference import distance_matrix, log_1p_sum_exp, log_sum_exp, mean, similarities


def unit(vectors):
    return vectors / np.sqrt(np.sum(vectors**2, axis=-1, keepdims=True))


def soft_triple(E, y, q, centers, scale=20.0, gamma=0.1, tau=0.2, margin=0.01):
    classes, count, _ = centers.shape
    w = unit(centers)
    near = [similarities(E, w[c]) for c in range(classes)]
    terms = []
    for i in range(len(y)):
        if not q[i]:
            continue
        logits = []
        for c in range(classes):
            total = log_sum_exp([value / gamma for value in near[c][i]])
            relaxed = sum(math.exp(value / gamma - total) * value for value in near[c][i])
            logits.append(scale * (relaxed - (margin if c == y[i] else 0.0)))
        terms.append(log_sum_exp(logits) - logits[y[i]])
    spread = 0.0
    for of_class in w:
        products = similarities(of_class)
        for a in range(count):
            for b in range(a + 1, count):
                spread += math.sqrt(2 + 1e-5 - 2 * products[a][b])
    return mean(terms) + (tau * spread / (classes * count * (count - 1)) if count > 1 else 0.0)


def proxy_nca(E, y, q, proxies, scale=3.0, positive_in_denominator=False):
    d = distance_matrix(scale * E, scale * unit(proxies))
    terms = []
    for i in range(len(y)):
        if not q[i]:
            continue
        d_sq = [value**2 for value in d[i]]
        below = [-value for z, value in enumerate(d_sq) if positive_in_denominator or z != y[i]]
        terms.append(d_sq[y[i]] + log_sum_exp(below))
    return mean(terms)


def proxy_anchor(E, y, q, proxies, margin=0.1, scale=32.0):
    s = similarities(E, unit(proxies))
    queries = [i for i in range(len(y)) if q[i]]
    pulls, pushes = [], []
    for c in range(len(proxies)):
        own = [-scale * (s[i][c] - margin) for i in queries if y[i] == c]
        if own:
            pulls.append(log_1p_sum_exp(own))
        pushes.append(log_1p_sum_exp([scale * (s[i][c] + margin) for i in queries if y[i] != c]))
    return mean(pulls) + mean(pushes)


def mean_cross_entropy(logits, y, q):
    return mean(log_sum_exp(logits[i]) - logits[i][y[i]] for i in range(len(y)) if q[i])


def norm_softmax(E, y, q, proxies, temperature=0.05):
    logits = [[value / temperature for value in row] for row in similarities(E, unit(proxies))]
    return mean_cross_entropy(logits, y, q)


def cos_face(E, y, q, proxies, margin=0.35, scale=64.0):
    logits = [[scale * value for value in row] for row in similarities(E, unit(proxies))]
    for row, own in zip(logits, y):
        row[own] -= scale * margin
    return mean_cross_entropy(logits, y, q)


def arc_face(E, y, q, proxies, margin=28.6, scale=64.0):
    """By the angles themselves; an embedding of length 0 is at a right angle to all proxies."""
    lengths = np.sqrt(np.sum(E**2, axis=1, keepdims=True))
    cosines = similarities(E / np.where(lengths > 0.0, lengths, 1.0), unit(proxies))
    m = math.pi * margin / 180
    logits = [[scale * value for value in row] for row in cosines]
    for row, cosine, own in zip(logits, cosines, y):
        angle = math.acos(min(max(cosine[own], -1.0), 1.0))
        inside = angle < math.pi - m
        row[own] = scale * (math.cos(angle + m) if inside else math.cos(angle) - m * math.sin(m))
    return mean_cross_entropy(logits, y, q)
