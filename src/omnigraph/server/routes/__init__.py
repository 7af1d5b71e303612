"""One module per resource, each with a tuple of operations; here they are put in order.

A fixed path stands before a variable one that would match it, too.
"""

from typing import Final

from omnigraph.server.operations import Operation
from omnigraph.server.routes import (
    blobs,
    branches,
    changes,
    commits,
    graphs,
    health,
    loads,
    metrics,
    mutations,
    queries,
    schema,
    snapshot,
    stored_queries,
    tags,
)

OPERATIONS: Final[tuple[Operation, ...]] = (
    *health.OPERATIONS,
    *graphs.OPERATIONS,
    *metrics.OPERATIONS,
    *queries.OPERATIONS,
    *stored_queries.OPERATIONS,
    *snapshot.OPERATIONS,
    *schema.OPERATIONS,
    *mutations.OPERATIONS,
    *loads.OPERATIONS,
    *branches.OPERATIONS,
    *tags.OPERATIONS,
    *commits.OPERATIONS,
    *changes.OPERATIONS,
    *blobs.OPERATIONS,
)
