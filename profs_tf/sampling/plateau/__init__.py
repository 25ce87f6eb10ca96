"""Projections that end on a plateau of the loss."""
