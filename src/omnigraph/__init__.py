"""OmniGraph: a typed property-graph database on a lakehouse.

The names of `__all__` are the public API. Each is imported when it is first used, so that
`import omnigraph` is cheap and the command line starts without the parts that it does not need.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph import errors
    from omnigraph.api import Graph
    from omnigraph.api.node_key import key
    from omnigraph.client import connect, connect_async
    from omnigraph.embedding import Embedder
    from omnigraph.errors import OmnigraphError
    from omnigraph.graph.access import AccessPolicy
    from omnigraph.graph.blobs.blob_reader import BlobReader
    from omnigraph.graph.query.plan import Plan
    from omnigraph.graph.results.mutation_result import MutationResult
    from omnigraph.graph.results.query_result import QueryResult
    from omnigraph.lang import Catalog, LintReport, compile_schema, lint
    from omnigraph.policy import load_policy

    __version__: str

__all__ = [
    "AccessPolicy",
    "BlobReader",
    "Catalog",
    "Embedder",
    "Graph",
    "LintReport",
    "MutationResult",
    "OmnigraphError",
    "Plan",
    "QueryResult",
    "__version__",
    "compile_schema",
    "connect",
    "connect_async",
    "errors",
    "key",
    "lint",
    "load_policy",
]

_HOMES = {
    "AccessPolicy": "omnigraph.graph.access",
    "BlobReader": "omnigraph.graph.blobs.blob_reader",
    "Catalog": "omnigraph.lang",
    "Embedder": "omnigraph.embedding",
    "Graph": "omnigraph.api",
    "LintReport": "omnigraph.lang",
    "MutationResult": "omnigraph.graph.results.mutation_result",
    "OmnigraphError": "omnigraph.errors",
    "Plan": "omnigraph.graph.query.plan",
    "QueryResult": "omnigraph.graph.results.query_result",
    "compile_schema": "omnigraph.lang",
    "connect": "omnigraph.client",
    "connect_async": "omnigraph.client",
    "key": "omnigraph.api.node_key",
    "lint": "omnigraph.lang",
    "load_policy": "omnigraph.policy",
}


def __getattr__(name: str) -> object:
    # Importing any submodule asks here first, so nothing is imported before the name is known.
    from importlib import import_module

    value: object
    match name:
        case "__version__":
            value = import_module("importlib.metadata").version("omnigraph")
        case "errors":
            value = import_module("omnigraph.errors")
        case _ if name in _HOMES:
            value = getattr(import_module(_HOMES[name]), name)
        case _:
            raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
