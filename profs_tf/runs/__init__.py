"""One training run on disk."""
