"""Requests to a server itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.client.calls.requests import get

if TYPE_CHECKING:
    from omnigraph.client.call import Call


def list_graphs(*, quarantined: bool = False) -> Call[dict[str, Any]]:
    """The graphs of a server, by id: the body of the contract."""
    include = "quarantined" if quarantined else None
    return get("graphs", lambda answer: answer.json(), include=include)
