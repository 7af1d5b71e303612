"""A manifest of two columns, published to by the recipe of one `merge_insert` per commit.

Run as a program it is one of several writers of the same line: `python -m
tests.guards.manifest_table <path> <branch> <writer> <publishes>`.
"""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from lance import LanceDataset
from tests.guards.lance_tables import PRIMARY_KEY, open_head

KEYED: "pa.Field[Any]" = pa.field("object_id", pa.string(), nullable=False, metadata=PRIMARY_KEY)
KEYLESS: "pa.Field[Any]" = pa.field("object_id", pa.string(), nullable=False)
VALUE: "pa.Field[Any]" = pa.field("value", pa.string())
MANIFEST = pa.schema([KEYED, VALUE])


def manifest_rows(**values: str) -> pa.Table:
    """One row for each object."""
    columns = {"object_id": list(values), "value": list(values.values())}
    return pa.table(columns, schema=MANIFEST)


def publish(line: LanceDataset, rows: pa.Table) -> None:
    """Merges rows on exactly this handle, without a retry by Lance."""
    merge = line.merge_insert("object_id").when_matched_update_all().when_not_matched_insert_all()
    merge.conflict_retries(0).execute(rows)


def objects(line: LanceDataset) -> list[tuple[str, str]]:
    """Every row of a line, sorted, duplicates kept."""
    found = line.to_table().to_pylist()
    return sorted((row["object_id"], row["value"]) for row in found)


def publish_until_it_wins(path: Path, branch: str | None, commit_id: str) -> int:
    """Publishes one commit whose parent is the head it read; returns how often it lost."""
    rejected = 0
    while True:
        line = open_head(path, branch)
        head = dict(objects(line))["graph_head"]
        try:
            publish(line, manifest_rows(graph_head=commit_id, **{commit_id: head}))
        except OSError:
            rejected += 1
        else:
            return rejected


def main(arguments: list[str]) -> None:
    """Publishes as one writer of several."""
    path, branch, writer, publishes = arguments
    for number in range(int(publishes)):
        publish_until_it_wins(Path(path), branch or None, f"commit-{writer}-{number}")


if __name__ == "__main__":
    main(sys.argv[1:])
