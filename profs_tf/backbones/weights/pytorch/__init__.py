"""Reads PyTorch state dicts without PyTorch and without running their code."""
