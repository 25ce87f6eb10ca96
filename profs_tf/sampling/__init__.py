"""Which images go into the batch of which step: pure functions of seed and step, without TensorFlow."""
