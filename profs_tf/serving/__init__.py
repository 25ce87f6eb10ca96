"""Exported embedders: SavedModel, TensorFlow Lite, ONNX, model card."""
