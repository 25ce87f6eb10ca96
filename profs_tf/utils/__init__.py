"""Small helpers that at least two folders use."""
