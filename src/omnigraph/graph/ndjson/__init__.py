"""The NDJSON form of a graph: strict reading, fast reading, and writing."""
