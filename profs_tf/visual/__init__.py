"""Pictures and pages: TensorBoard, gallery, contact sheet, neighbor strip, learning curves."""
