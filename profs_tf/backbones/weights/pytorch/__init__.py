"""Reads PyTorch state dicts without PyTorch and without running the code that they may hold."""
