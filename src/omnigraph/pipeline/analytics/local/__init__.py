"""The measures in this process: NumPy over numbered nodes; nothing here knows Spark."""
