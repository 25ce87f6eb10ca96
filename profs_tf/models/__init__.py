"""The embedder, and the Keras model that trains it."""
