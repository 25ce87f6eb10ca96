"""Readers of published weights, one format a file."""
