"""One request to a server as a value, and what comes back, before and after any transport."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from omnigraph.errors import (
    InternalError,
    InvalidArgument,
    OmnigraphError,
    QueryInvalid,
    SchemaInvalid,
)
from omnigraph.graph.results.envelope import error_of
from omnigraph.lang.diagnostics import render_reported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")

_FIRST_ERROR: Final = 400
_FIRST_REDIRECT: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server answered: read whole, except for a stream."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    content: bytes = b""

    def json(self) -> dict[str, object]:
        """The body as an object.

        Raises:
            InternalError: it is none.
        """
        try:
            return msgspec.json.decode(self.content, type=dict[str, object])
        except msgspec.DecodeError as error:
            raise InternalError(
                f"the server answered {self.status} with a body that is not JSON: {error}; is it a"
                " server of omnigraph?"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A request to one graph, and how its answer is read."""

    method: str
    path: str
    """Below the address of the graph, its parts quoted."""
    decode: Callable[[Answer], T]
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    is_write: bool = False
    """It may change the graph, so a lost answer leaves open whether it did."""
    key: str | None = None
    """The idempotency key of a write: it may be sent again."""
    timeout_s: float | None = None
    source: str | None = None
    """The text that it sends to be compiled, of which errors show lines."""

    def read(self, answer: Answer) -> T:
        """The result, or the error that the answer stands for."""
        require_success(answer, self.source)
        return self.decode(answer)


def require_success(answer: Answer, source: str | None = None) -> None:
    """Raise what an answer of failure stands for."""
    if answer.status >= _FIRST_ERROR:
        raise _with_lines(failure(answer), source)
    if answer.status >= _FIRST_REDIRECT and answer.status != 302:
        raise InvalidArgument(
            f"the server answers {answer.status} and leads to {answer.headers.get('location')!r};"
            " requests are not sent elsewhere: connect to that address",
            argument="url",
        )


def failure(answer: Answer) -> OmnigraphError:
    """The error of an answer; a body from somebody else on the way is told by its status."""
    try:
        body = answer.json()
    except InternalError:
        text = answer.content[:200].decode(errors="replace").strip()
        body = {"error": f"the server answered {answer.status}: {text}"}
    error = error_of(answer.status, body)
    wait = answer.headers.get("retry-after", "")
    if wait.isdigit():
        error.details["retry_after_s"] = int(wait)
    return error


def _with_lines(error: OmnigraphError, source: str | None) -> OmnigraphError:
    """An error of a text with its lines, which a body has not."""
    diagnostics = error.details.get("diagnostics")
    if source is None or not isinstance(error, QueryInvalid | SchemaInvalid):
        return error
    if not isinstance(diagnostics, list) or not diagnostics:
        return error
    details = error.details | {"total": len(diagnostics)}
    return type(error)(render_reported(diagnostics, source), **details)
