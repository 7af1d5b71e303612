"""The graph on top of the tables: what is valid, what is visible, how a write becomes a commit."""
