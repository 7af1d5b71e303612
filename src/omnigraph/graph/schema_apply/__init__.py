"""Schema evolution: a plan against a graph, and applying it as one commit."""
