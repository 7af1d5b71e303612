"""Merge mode: staged rows that take the place of committed ones."""
