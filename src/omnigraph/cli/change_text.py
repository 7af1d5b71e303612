"""Changes of entities as lines for people, and the options that choose among them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.changes.change_pages import ChangePage
    from omnigraph.graph.changes.entity_change import EntityChange, Image

KindOption = Annotated[
    list[str] | None,
    typer.Option("--kind", metavar="node|edge", help="Only nodes, or only edges."),
]
TypeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        help="Only this type, as Person, node:Link or edge:Link; may be repeated.",
    ),
]
OpOption = Annotated[
    list[str] | None,
    typer.Option(
        "--op", metavar="insert|update|delete", help="Only these changes; may be repeated."
    ),
]

_SIGNS: Final = {"insert": "+", "update": "~", "delete": "-"}
_LONGEST_VALUE: Final = 60


def change_line(change: EntityChange) -> str:
    """One change: a sign, the type, the id, and for an update what differs."""
    words = [_SIGNS[change.op.value], f"{change.kind.value}:{change.type_name}", change.id]
    return "  ".join([*words, *_details(change)])


def block_lines(page: ChangePage, *, begun: str | None = None) -> Iterator[str]:
    """The commits of a page, each followed by its changes; `begun` already has its own line."""
    for block in page:
        cause = block.cause
        who = "" if cause.actor_id is None else f" by {cause.actor_id}"
        if cause.graph_commit_id != begun:
            yield f"commit {cause.graph_commit_id} on {cause.authored_branch}{who}"
        for change in block.changes:
            yield f"  {change_line(change)}"


def _details(change: EntityChange) -> Iterator[str]:
    image = change.after or change.before
    if image is not None and image.endpoints is not None:
        yield _ends(image)
    if change.before is not None and change.after is not None:
        if change.before.endpoints != change.after.endpoints:
            yield f"(was {_ends(change.before)})"
        before, after = change.before.properties, change.after.properties
        for name, value in after.items():
            if before.get(name) != value:
                yield f"{name}: {_short(before.get(name))} -> {_short(value)}"


def _ends(image: Image) -> str:
    return " -> ".join(image.endpoints or ())


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
