"""Losses against pytorch-metric-learning: its values and gradients on one batch, computed once and kept.

Its SupCon averages over the queries whose value is not 0, which are those with a positive. It has no query
mask: with one, its losses of proxies were given the queries alone, and SupCon the queries' pairs.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from profs_tf import losses
from tests.losses.loss_cases import value_and_gradients

KEPT = json.loads(Path(__file__).with_name("pytorch_metric_learning.json").read_text("utf-8"))
EMBEDDINGS = np.array(KEPT["embeddings"])


def on_the_sphere(gradient):
    """The part of a gradient along the unit sphere; theirs has no other, since they normalize embeddings."""
    return gradient - np.sum(gradient * EMBEDDINGS, axis=1, keepdims=True) * EMBEDDINGS


@pytest.mark.parametrize("result", KEPT["results"], ids=lambda result: f"{result['loss']}-{result['masked']}")
def test_values_and_gradients_are_those_of_pytorch_metric_learning(result):
    loss_class = losses.loss_class(result["loss"])
    sizes = {"num_classes": 5, "embedding_dim": 4} if loss_class.has_prototypes else {}
    loss = loss_class(**sizes, **result["options"])
    if loss.has_prototypes:
        loss.proxies.assign(KEPT["proxies"])
    mask = KEPT["queries"] if result["masked"] else None
    value, (gradient, *of_proxies) = value_and_gradients(loss, KEPT["labels"], EMBEDDINGS, mask)
    np.testing.assert_allclose(value, result["value"], rtol=1e-6)
    found, expected = on_the_sphere(gradient.numpy()), np.array(result["embedding_gradient"])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    for found in of_proxies:
        expected = np.array(result["proxy_gradient"])
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
