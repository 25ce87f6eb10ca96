"""Greedy k-center in plain loops."""

import numpy as np


def k_center_of_class(points, count, covered=()):
    """Returns the positions of the chosen points of one class."""
    centers, chosen = list(covered), []
    while len(chosen) < count:
        best, farthest = None, -1.0
        for position, point in enumerate(points):
            if position in chosen:
                continue
            distance = min((np.linalg.norm(point - center) for center in centers), default=np.inf)
            if distance > farthest:
                best, farthest = position, distance
        chosen.append(best)
        centers.append(points[best])
    return chosen
