"""A schema as callers give it: its text, or the path of a file that has it."""

from __future__ import annotations

from pathlib import Path

from omnigraph.errors import InvalidArgument


def schema_text(schema: str | Path) -> str:
    """The `.pg` text, read if it is a file.

    Raises:
        InvalidArgument: it is none.
    """
    if isinstance(schema, str):
        return schema
    if not isinstance(schema, Path):
        raise InvalidArgument(
            f"a schema is .pg text, or the Path of a file, not {type(schema).__name__}",
            argument="schema",
        )
    try:
        return schema.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(
            f"cannot read the schema {schema}: {error}", path=str(schema)
        ) from error
