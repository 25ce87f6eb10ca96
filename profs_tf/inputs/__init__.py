"""From image files to batches of pixels: decoding, preprocessing, cache and tf.data pipeline."""
