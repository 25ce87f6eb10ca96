"""Keras callbacks: projections, evaluation, class mining."""
