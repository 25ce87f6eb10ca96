"""The exact ranking engine behind `metrics.evaluate_retrieval` and `metrics.nearest_neighbors`."""
