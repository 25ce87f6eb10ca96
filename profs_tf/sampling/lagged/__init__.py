"""Samplers whose batches depend on what earlier steps computed, with a fixed lag."""
