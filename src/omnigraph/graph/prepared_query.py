"""`PreparedQuery`: a read query that is named once and called with parameters.

What follows from its text is checked when it is made. What follows from a schema is kept by
whoever runs it, for every schema that it meets, so each call does what depends on parameters and
on the state that is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from omnigraph.errors import InvalidArgument
from omnigraph.lang import select_read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.history.targets import ReadTarget

_Result = TypeVar("_Result")
_Answer = TypeVar("_Answer", covariant=True)


class Ask(Protocol[_Answer]):
    """The `query` of an open graph, or of one behind a server."""

    def __call__(
        self,
        source: str,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
        timeout_s: float | None = None,
    ) -> _Answer:
        """Run a read query."""


class PreparedQuery(Generic[_Result]):
    """A read query; safe to call from many threads, as the graph is that it belongs to."""

    __slots__ = ("_ask", "name", "source")

    def __init__(self, ask: Ask[_Result], source: str, name: str | None) -> None:
        if not isinstance(source, str):
            raise InvalidArgument(
                f"source is the text of a query, not {type(source).__name__}", argument="source"
            )
        self._ask = ask
        self.source = source
        self.name = select_read(source, name).name

    def __call__(
        self,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
        timeout_s: float | None = None,
    ) -> _Result:
        """Run it; arguments and errors are those of `query`."""
        return self._ask(
            self.source, self.name, params, branch=branch, snapshot=snapshot, timeout_s=timeout_s
        )

    def __repr__(self) -> str:
        return f"<PreparedQuery: {self.name}>"
