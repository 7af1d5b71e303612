"""Joining two branches: the base, the decision for each entity, conflicts, the commit."""
