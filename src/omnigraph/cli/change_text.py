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
_SHOWN_BEFORE: Final = 20
"""So much of what values have alike is shown before that in which they differ."""


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
                was, now = excerpts(*map(_as_json, (before.get(name), value)))
                yield f"{name}: {was} -> {now}"


def _ends(image: Image) -> str:
    return " -> ".join(image.endpoints or ())


def excerpts(*values: str) -> list[str]:
    """Values in few characters each: long ones from where the last two begin to differ."""
    if len(values) < 2:
        return [_cut(value) for value in values]
    alike = _count_alike(*values[-2:])
    start = alike - _SHOWN_BEFORE if alike > _LONGEST_VALUE - _SHOWN_BEFORE else 0
    begin = values[-1][:start]
    return [
        _cut(f"…{value[start:]}" if begin and value.startswith(begin) else value)
        for value in values
    ]


def _count_alike(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
