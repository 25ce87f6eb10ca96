"""Embeddings of many pictures as files for other tools: vector databases, Spark, faiss."""
