"""What every call is made of: names, parameters, headers and bodies as requests carry them; pure.

What no request can carry is refused here as an open graph refuses it, before anything is sent.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

import msgspec

from omnigraph.client.call import Call
from omnigraph.errors import (
    BranchNotFound,
    CommitNotFound,
    InvalidArgument,
    NotServed,
    ParameterError,
)
from omnigraph.graph.changes.entity_change import parse_filter
from omnigraph.graph.history.target_texts import no_target
from omnigraph.ids import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    from omnigraph.client.call import Answer
    from omnigraph.graph.history.targets import ReadTarget

T = TypeVar("T")

_JSON: Final = {"Content-Type": "application/json"}
_IF_COMMIT: Final = "Omnigraph-If-Graph-Commit"
NO_PARTS: Final = ("", ".", "..")
"""What no path can hold as a part of it."""
_KEY: Final = "Idempotency-Key"


def not_served(what: str, instead: str) -> NotServed:
    """The error for what needs the storage of the graph."""
    return NotServed(f"{what} is not available on a remote graph; {instead}", operation=what)


def state_text(target: ReadTarget) -> str:
    """A state of the graph as a request names it.

    Raises:
        InvalidArgument: it names none.
    """
    if isinstance(target, bool) or not isinstance(target, str | int | datetime):
        raise no_target(target)
    return target.isoformat() if isinstance(target, datetime) else str(target)


def target_text(target: ReadTarget | None) -> str | None:
    """The same where the head of a branch is meant by nothing."""
    return None if target is None else state_text(target)


def json_params(params: Mapping[str, object] | None) -> dict[str, object] | None:
    """Values of parameters as JSON carries them.

    Raises:
        InvalidArgument: they are no mapping.
        ParameterError: JSON cannot carry one.
    """
    if params is None:
        return None
    if not isinstance(params, Mapping):
        raise InvalidArgument(
            f"params is a mapping of names to values, not {type(params).__name__}",
            argument="params",
        )
    return {str(name): _json(str(name), value) for name, value in params.items()}


def _json(name: str, value: object) -> object:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return f"base64:{base64.b64encode(value).decode()}"
        case list() | tuple():
            return [_json(name, item) for item in value]
    for method in ("as_py", "to_pylist", "tolist"):
        convert = getattr(value, method, None)
        if callable(convert):
            return _json(name, convert())
    raise ParameterError(
        f"parameter `${name}`: a value of type {type(value).__name__} cannot be sent",
        reason="parameter_type",
        parameter=name,
    )


def one_target(branch: str | None, snapshot: object) -> None:
    """Refuse a branch beside a snapshot.

    Raises:
        InvalidArgument: both are given.
    """
    if branch is not None and snapshot is not None:
        raise InvalidArgument(
            "give a branch or a snapshot, not both: a snapshot names its branch",
            argument="snapshot",
        )


def branch_name(given: str) -> str:
    """The branch of a call; a name with blanks around it is not that of another branch.

    Raises:
        InvalidArgument: it is no text: a write never goes to `main` because nothing was named.
        BranchNotFound: no branch has such a name.
    """
    if not isinstance(given, str):
        raise InvalidArgument(f"a branch is given by its name, not by {given!r}", argument="branch")
    if given in NO_PARTS or given.strip() != given:
        raise BranchNotFound(f"there is no branch {given!r}", branch=given)
    return given


def branch_or_main(given: str | None) -> str:
    """The branch of a read that is of `main` where nothing else is said."""
    return MAIN_BRANCH if given is None else branch_name(given)


def optional_branch(given: str | None) -> str | None:
    """The branch of a call that may have none."""
    return None if given is None else branch_name(given)


def condition(if_commit: str | None) -> dict[str, str]:
    """The header of a conditional write.

    Raises:
        InvalidArgument: no header can carry it, so it is no id of a commit.
    """
    if if_commit is not None and not _fits_header(if_commit):
        raise InvalidArgument(f"{if_commit!r} is no id of a commit", argument="if_commit")
    return {} if if_commit is None else {_IF_COMMIT: if_commit}


def key_header(key: str | None) -> dict[str, str]:
    """The header of a write that may be sent again.

    Raises:
        InvalidArgument: it is no key.
    """
    if key is not None and not (_fits_header(key) and len(key) <= 200):
        raise InvalidArgument(
            "an idempotency key has 1 to 200 printable ASCII characters, and no blank at its ends",
            argument="idempotency_key",
        )
    return {} if key is None else {_KEY: key}


def _fits_header(text: str) -> bool:
    """Whether a header carries the text as it is; blanks at its ends would be lost on the way."""
    return text.isascii() and text.isprintable() and bool(text) and text.strip() == text


def commit_part(target: ReadTarget) -> str:
    """A commit as part of a path; what no path can hold is the id of none."""
    text = state_text(target)
    if text in NO_PARTS:
        raise CommitNotFound(f"there is no commit {text!r}", graph_commit_id=text)
    return quote(text, safe="")


def _content(body: Mapping[str, object]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            "a text has half a character (a lone surrogate), which UTF-8 cannot carry; send whole"
            " characters"
        ) from error


def filter_parameters(
    kinds: Iterable[str] | None, types: Iterable[str] | None, ops: Iterable[str] | None
) -> tuple[tuple[str, str], ...]:
    """A filter of changes as parameters."""
    wanted = parse_filter(kinds, types, ops).to_dict()
    names = {"kinds": "kind", "types": "type", "ops": "op"}
    return tuple((names[name], value) for name, values in wanted.items() for value in values)


def parameters(**given: str | None) -> tuple[tuple[str, str], ...]:
    """Query parameters, without those that have no value."""
    return tuple((name, value) for name, value in given.items() if value is not None)


def get(path: str, decode: Decoder[T], **given: str | None) -> Call[T]:
    """A request without a body."""
    return Call(method="GET", path=path, query=parameters(**given), decode=decode)


def post(
    path: str,
    body: Mapping[str, object],
    decode: Decoder[T],
    *,
    headers: Mapping[str, str] | None = None,
    is_write: bool = False,
    key: str | None = None,
    timeout_s: float | None = None,
    source: str | None = None,
) -> Call[T]:
    """A request with a body of JSON; `source` is the text in it that errors show lines of."""
    if timeout_s is not None and not timeout_s >= 0:
        raise InvalidArgument("timeout_s is 0 or more seconds", argument="timeout_s")
    limit = {} if not timeout_s else {"Omnigraph-Timeout-Ms": str(max(1, round(timeout_s * 1000)))}
    return Call(
        method="POST",
        path=path,
        decode=decode,
        headers={**_JSON, **(headers or {}), **key_header(key), **limit},
        content=_content(body),
        is_write=is_write,
        key=key,
        timeout_s=timeout_s,
        source=source,
    )


if TYPE_CHECKING:
    Decoder: TypeAlias = Callable[[Answer], T]
