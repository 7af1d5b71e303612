"""Embedding jobs: vectors for a type, or for a file of texts."""
