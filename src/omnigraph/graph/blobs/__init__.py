"""Blobs: reading them, checking what a write gives, and addresses outside the graph."""
