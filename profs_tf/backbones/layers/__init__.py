"""Layers that several backbones share."""
