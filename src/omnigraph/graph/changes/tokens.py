"""Page tokens and cursors of changes: opaque texts that tell where to go on.

A token is checked, not secret: it carries a digest keyed by the graph, so that one of another graph
or one that was edited is refused instead of leading anywhere. It names the branch by its identity
and the filter by its digest: with another filter the place would mean something else.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from omnigraph.errors import ChangeCursorRejected
from omnigraph.graph.changes.diff import ChangePlace  # noqa: TC001 - a token is decoded by it

if TYPE_CHECKING:
    from omnigraph.graph.changes.entity_change import ChangeFilter
    from omnigraph.ids import GraphId

MAX_TOKEN_CHARACTERS: Final = 4_096
_DIGEST_BYTES: Final = 16
_PURPOSE: Final = b"omnigraph change token"


class TokenKind(StrEnum):
    """What a token is for."""

    COMMIT_PAGE = "commit-page"
    FEED_PAGE = "feed-page"
    CURSOR = "cursor"
    DIFF_PAGE = "diff-page"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeToken:
    """A place in the changes of a commit or a branch."""

    kind: TokenKind
    branch_id: str
    commit_id: str
    filter_digest: str
    place: ChangePlace | None = None
    cut: str | None = None
    """The head up to which a poll goes; of a difference, the state that it leads to."""


def filter_digest(wanted: ChangeFilter) -> str:
    """The same for the same wishes."""
    return hashlib.blake2b(_canonical(wanted.to_dict()), digest_size=8).hexdigest()


def write_token(graph_id: GraphId, token: ChangeToken) -> str:
    """The token as a text."""
    content = _canonical(
        {name: value for name, value in asdict(token).items() if value is not None}
    )
    return _as_text(_digest(graph_id, content) + content)


def read_token(graph_id: GraphId, text: str, kind: TokenKind, wanted: ChangeFilter) -> ChangeToken:
    """The token that a text is.

    Raises:
        ChangeCursorRejected: it is damaged, or of another graph, kind or filter.
    """
    if not isinstance(text, str) or len(text) > MAX_TOKEN_CHARACTERS:
        raise rejected("it is no token")
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise rejected("it is no token") from error
    if _as_text(data) != text:
        raise rejected("it is damaged")
    digest, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    if not hmac.compare_digest(digest, _digest(graph_id, content)):
        raise rejected("it is damaged, or belongs to another graph")
    try:
        token = msgspec.json.decode(content, type=ChangeToken)
    except msgspec.MsgspecError as error:
        raise rejected("it is damaged") from error
    if token.kind is not kind:
        raise rejected(f"it is a {token.kind}, and a {kind} is wanted")
    if token.filter_digest != filter_digest(wanted):
        raise rejected("it was made with other filters; give the same ones")
    return token


def rejected(why: str) -> ChangeCursorRejected:
    """The error of a token that leads nowhere."""
    return ChangeCursorRejected(f"change cursor rejected: {why}")


def _as_text(data: bytes) -> str:
    """The one spelling of a token: of several that mean the same bytes no other is taken."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _digest(graph_id: GraphId, content: bytes) -> bytes:
    key = hashlib.blake2b(_PURPOSE + graph_id.encode(), digest_size=32).digest()
    return hashlib.blake2b(content, key=key, digest_size=_DIGEST_BYTES).digest()


def _canonical(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
