"""Labels of dtype object or bytes, as columns of tables and tensors of strings have them."""

import numbers

import numpy as np


def strings_or_integers(labels: np.ndarray) -> np.ndarray:
    """Returns labels of dtype object or bytes, [N], as strings or integers; unchanged if they are mixed.

    NumPy alone would turn a missing value in a column of strings into a string. Bytes are UTF-8.
    """
    values = [label.decode("utf-8") if isinstance(label, bytes) else label for label in labels.tolist()]
    if all(isinstance(label, str) for label in values):
        return np.asarray(values)
    if all(isinstance(label, numbers.Integral) and not isinstance(label, bool) for label in values):
        return np.asarray(values)
    return labels
