"""`omnigraph blob`: the bytes of one blob value, and what is known of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.query_input import ReadBranchOption, SnapshotOption
from omnigraph.cli.replaced_file import replacing
from omnigraph.cli.session import Session, begin_command
from omnigraph.errors import BlobRangeError, UsageError
from omnigraph.limits import MAX_BLOB_READ_BYTES

if TYPE_CHECKING:
    from omnigraph.cli.addressing import Target
    from omnigraph.graph.graph_like import BlobLike

_GET_HELP: Final = """Write the bytes of a blob to standard output or a file.

\b
Example:
  omnigraph blob get node File readme.txt content --store files.omni --out readme.txt

With --offset and --length only a part of it; a part that ends past the value ends with it. A blob
that lies outside the graph is not fetched: the error tells its address.
"""
_STAT_HELP: Final = """Show how long a blob is, and its tag or its address.

\b
Example:
  omnigraph blob stat node File readme.txt content --store files.omni

The tag changes whenever the entity is written. A blob that lies outside the graph has an address
instead, and nobody looks how long it is.
"""
_LARGEST: Final = 2**63 - 1


class Entity(StrEnum):
    """What kind of entity has the blob."""

    NODE = "node"
    EDGE = "edge"


EntityArgument = Annotated[
    Entity, typer.Argument(metavar="ENTITY", help="What has the blob: node or edge.")
]
TypeArgument = Annotated[str, typer.Argument(metavar="TYPE", help="Its type.")]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Its id.")]
PropertyArgument = Annotated[str, typer.Argument(metavar="PROPERTY", help="The Blob property.")]


def register(app: typer.Typer) -> None:
    """Add the group `blob`."""
    group = typer.Typer(rich_markup_mode=None, help="Read the blobs of a graph.")
    group.command("get", help=_GET_HELP)(fetch)
    group.command("stat", help=_STAT_HELP)(stat)
    app.add_typer(group, name="blob")


def fetch(
    context: typer.Context,
    entity: EntityArgument,
    type_name: TypeArgument,
    entity_id: IdArgument,
    name: PropertyArgument,
    *,
    branch: ReadBranchOption = None,
    snapshot: SnapshotOption = None,
    offset: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Leave out the first N bytes."),
    ] = None,
    length: Annotated[int | None, typer.Option(min=1, metavar="N", help="At most N bytes.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Write to this file; it appears when all bytes are there."
        ),
    ] = None,
) -> int:
    """Write the bytes, all or a part."""
    session = begin_command(context)
    if (offset or 0) + (length or 0) > _LARGEST:
        raise UsageError(f"--offset and --length together must not be above {_LARGEST}")
    target = _target(context, session, branch, snapshot)
    with _opened(target, (entity, type_name, entity_id, name), snapshot) as reader:
        pieces = _pieces(reader, offset, length)
        if out is None:
            for piece in pieces:
                session.output.write_data(piece)
        else:
            with replacing(out) as file:
                for piece in pieces:
                    file.write(piece)
    return exit_codes.OK


def stat(
    context: typer.Context,
    entity: EntityArgument,
    type_name: TypeArgument,
    entity_id: IdArgument,
    name: PropertyArgument,
    *,
    branch: ReadBranchOption = None,
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
) -> int:
    """Print what is known of the blob."""
    session = begin_command(context)
    selector = {"entity": entity.value, "type": type_name, "id": entity_id, "property": name}
    target = _target(context, session, branch, snapshot)
    with _opened(target, (entity, type_name, entity_id, name), snapshot) as reader:
        known: dict[str, object] = {
            "length": reader.length,
            "etag": reader.etag,
            "uri": reader.uri,
            "graph_commit_id": reader.graph_commit_id,
        }
    if not as_json:
        session.output.write_facts(selector | known)
        return exit_codes.OK
    body = {
        "selector": selector,
        "kind": "managed" if known["uri"] is None else "external",
        "size": known["length"],
        "etag": known["etag"],
        "target": {"branch": target.branch or "main"}
        if snapshot is None
        else {"snapshot": snapshot},
        "uri": known["uri"],
    }
    session.output.write_json({key: value for key, value in body.items() if value is not None})
    return exit_codes.OK


def _target(
    context: typer.Context, session: Session, branch: str | None, snapshot: str | None
) -> "Target":
    """The graph, with the branch that is read if no snapshot is."""
    from omnigraph.cli.addressing import choose_branch, find_query_target

    if branch is not None and snapshot is not None:
        raise UsageError("both --branch and --snapshot are given; give one of them")
    target, _ = find_query_target(session)
    chosen = choose_branch(context, target, branch) if snapshot is None else None
    return replace(target, branch=chosen)


@contextmanager
def _opened(
    target: "Target", selector: tuple[Entity, str, str, str], snapshot: str | None
) -> Iterator["BlobLike"]:
    entity, type_name, entity_id, name = selector
    place = {"branch": target.branch, "snapshot": snapshot}
    with target.reach() as graph:
        yield graph.blob(entity.value, type_name, entity_id, name, **place)


def _pieces(reader: "BlobLike", offset: int | None, length: int | None) -> Iterator[bytes]:
    """The chosen bytes in pieces; whatever is wrong with the choice is told at once."""
    start = offset or 0
    if reader.length is None:
        return iter(reader)  # It tells the address.
    stop = reader.length if length is None else min(start + length, reader.length)
    is_part = offset is not None or length is not None
    if is_part and start >= reader.length:
        raise BlobRangeError(
            f"the blob has {reader.length:,} bytes and none from {start:,} on; give a smaller"
            " --offset",
            start=start,
            end=stop if length is None else start + length,
            length=reader.length,
        )
    return (
        reader.read(at, min(at + MAX_BLOB_READ_BYTES, stop))
        for at in range(start, stop, MAX_BLOB_READ_BYTES)
    )
