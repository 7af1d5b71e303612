"""Graph lines as an earlier version read them, rewritten to lines that the strict reader takes.

Of a member that stands twice the last one wins, and members that the type does not have are left
out. All else is the strict reader's: what it refuses, and the numbers of the lines, stay.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from omnigraph.graph.ndjson.strict_reader import (
    EDGE_MEMBERS,
    NODE_MEMBERS,
    is_reserved,
    repeated_member,
)
from omnigraph.limits import MAX_NDJSON_STRUCTURAL_SLOTS

if TYPE_CHECKING:
    from omnigraph.lang.catalog import Catalog, EdgeType, NodeType

log = logging.getLogger(__name__)


def without_unknown_members(content: bytes, catalog: Catalog) -> bytes:
    """The same lines, each without the members that nobody knows or that a later one replaces."""
    ignored = 0
    lines = content.split(b"\n")
    for place, line in enumerate(lines):
        # A line beyond this may be refused for its size; the strict reader looks before it parses.
        if len(line) > MAX_NDJSON_STRUCTURAL_SLOTS:
            continue
        try:
            record = msgspec.json.decode(line)
            is_repeated = repeated_member(line) is not None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
            continue
        unknown = _drop_unknown(record, catalog)
        if unknown or is_repeated:
            lines[place] = msgspec.json.encode(record)
        ignored += unknown
    if ignored:
        log.warning("a load of the old form had members that no type has", extra={"count": ignored})
    return b"\n".join(lines)


def _drop_unknown(record: object, catalog: Catalog) -> int:
    """Remove from a record what its type does not have, and say how much that was."""
    if not isinstance(record, dict) or ("type" in record) is ("edge" in record):
        return 0
    name = record.get("type", record.get("edge"))
    item: NodeType | EdgeType | None = None
    if isinstance(name, str):
        item = (catalog.node_types if "type" in record else catalog.edge_types).get(name)
    if item is None:
        return 0
    allowed = NODE_MEMBERS if "type" in record else EDGE_MEMBERS
    count = _keep(record, set(allowed))
    data = record.get("data")
    if isinstance(data, dict):
        reserved = {member for member in data if is_reserved(item, member)}
        count += _keep(data, {"id", *item.properties} | reserved)
    return count


def _keep(members: dict[str, object], known: set[str]) -> int:
    unknown = [member for member in members if member not in known]
    for member in unknown:
        del members[member]
    return len(unknown)
