"""The measures on Spark: frames of numbered nodes and edges."""
