"""Exact k-means for any number of clusters, in bounded memory."""
