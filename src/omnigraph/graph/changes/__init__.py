"""What differs between two states of a graph: rows, entities, commits."""
