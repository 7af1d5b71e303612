"""Keeping a graph in order: indexes, compaction, cleanup, verification, repair."""
