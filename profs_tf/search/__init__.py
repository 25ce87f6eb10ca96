"""An index of embedded images, and nearest-neighbor search in it."""
