"""Mutations and in-process loads: pending rows, staging, rejects."""
