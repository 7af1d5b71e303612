"""Options that say what the rows of a tabular source become."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli.spark_options import read_pairs
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PANEL: Final = "Tabular sources"

FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="ndjson|json|csv|parquet|orc|table",
        help="The format, whatever the name says; ndjson is the graph format, json any other "
        "lines of JSON, table the name of a table of Spark.",
    ),
]
TypeOption = Annotated[
    str | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        rich_help_panel=_PANEL,
        help="The node type that the rows of a tabular source become.",
    ),
]
EdgeOption = Annotated[
    str | None,
    typer.Option(
        "--edge",
        metavar="TYPE",
        rich_help_panel=_PANEL,
        help="Or the edge type; its ends are ids in the columns src and dst.",
    ),
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="COLUMN=PROPERTY",
        rich_help_panel=_PANEL,
        help="A column of another name than its property; may be repeated. Columns that no "
        "property is named after are then left out.",
    ),
]
IdColumnOption = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", rich_help_panel=_PANEL, help="The column of the id."),
]
FromColumnOption = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", rich_help_panel=_PANEL, help="The column of the node an edge starts at."
    ),
]
ToColumnOption = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", rich_help_panel=_PANEL, help="The column of the node an edge leads to."
    ),
]
ReaderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        rich_help_panel=_PANEL,
        help="An option of Spark's reader, as sep=; or inferSchema=true; may be repeated.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options as they were given."""

    form: str | None = None
    type: str | None = None
    edge: str | None = None
    map: list[str] | None = None
    id_column: str | None = None
    from_column: str | None = None
    to_column: str | None = None
    option: list[str] | None = None

    def columns(self) -> "Mapping[str, str] | None":
        """The column of each property that is mapped; None if none is.

        Raises:
            UsageError: a pair is malformed, or a property is given twice.
        """
        columns: dict[str, str] = {}
        pairs = [("--map", *_pair(text)) for text in self.map or ()]
        pairs += [
            (option, name, column)
            for option, name, column in (
                ("--id-column", "id", self.id_column),
                ("--from-column", "src", self.from_column),
                ("--to-column", "dst", self.to_column),
            )
            if column is not None
        ]
        for option, name, column in pairs:
            if name in columns:
                raise UsageError(
                    f"{option} {column!r}: `{name}` is given already, by the column "
                    f"{columns[name]!r}; give each property once"
                )
            columns[name] = column
        return columns or None

    def reader_options(self) -> "Mapping[str, str]":
        """The options of Spark's reader.

        Raises:
            UsageError: one is malformed.
        """
        return read_pairs("--option", self.option)

    def require_fit(self, kind: str, data: str) -> None:
        """Refuse options that the format of the source does not have, and a missing type.

        Raises:
            UsageError: what to give instead.
        """
        options = {
            "--type": self.type,
            "--edge": self.edge,
            "--map": self.map,
            "--id-column": self.id_column,
            "--from-column": self.from_column,
            "--to-column": self.to_column,
            "--option": self.option,
        }
        names = [name for name, value in options.items() if value]
        if kind == "ndjson":
            if names:
                raise UsageError(
                    f"{names[0]} is for tabular sources, and {data} is read as ndjson, whose "
                    "lines name their own types; give --format json, csv, parquet, orc or table"
                )
            return
        if (self.type is None) is (self.edge is None):
            raise UsageError(
                f"{data} is read as {kind}, whose rows are of one type: give --type or --edge"
            )
        for option, column in (
            ("--from-column", self.from_column),
            ("--to-column", self.to_column),
        ):
            if column is not None and self.edge is None:
                raise UsageError(f"{option} is of edges; give --edge instead of --type")


def _pair(text: str) -> tuple[str, str]:
    """The property and its column; a column may hold the sign, a property never does."""
    column, sign, name = text.rpartition("=")
    if not sign or not column or not name:
        raise UsageError(f"--map {text!r}: expected COLUMN=PROPERTY")
    return name, column
