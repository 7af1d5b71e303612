"""The only code that touches Lance or the object store."""

import os

# Lance reads it when it is imported; with centroids, the statistics of a vector index are huge.
os.environ["LANCE_INCLUDE_VECTOR_CENTROIDS"] = "false"
