"""Options of the commands that may run on Spark: which cluster, and how it is set up."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.errors import UsageError
from omnigraph.settings import Engine

if TYPE_CHECKING:
    from omnigraph.cli.addressing import Target

_PANEL: Final = "Spark"

LaneOption = Annotated[
    Engine | None,
    typer.Option(
        "--engine",
        metavar="|".join(Engine),
        help="Where it runs: in this process, on Spark, or as the input needs. Without it "
        "OMNIGRAPH_ENGINE, then auto.",
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--spark-master",
        metavar="URL",
        rich_help_panel=_PANEL,
        help="The cluster: local[*,4], spark://…, yarn, k8s://…",
    ),
]
RemoteOption = Annotated[
    str | None,
    typer.Option(
        "--spark-remote",
        metavar="URL",
        rich_help_panel=_PANEL,
        help="A Spark Connect endpoint instead: sc://host:15002.",
    ),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf",
        metavar="KEY=VALUE",
        rich_help_panel=_PANEL,
        help="An option of the Spark session; may be repeated.",
    ),
]


def with_spark(
    target: "Target",
    *,
    engine: Engine | None,
    master: str | None,
    remote: str | None,
    conf: list[str] | None,
) -> "Target":
    """The target with these options in place of those of the settings.

    Raises:
        UsageError: a master and an endpoint, or an option of the session without a value.
    """
    if master is not None and remote is not None:
        raise UsageError("give --spark-master or --spark-remote, not both")
    pairs = {}
    for each in conf or ():
        key, sign, value = each.partition("=")
        if not sign or not key:
            raise UsageError(f"--spark-conf {each!r}: expected KEY=VALUE")
        pairs[key] = value
    spark = target.settings.spark
    if master is not None or remote is not None:
        spark = replace(spark, master=master or spark.master, remote=remote)
    spark = replace(
        spark,
        engine=spark.engine if engine is None else engine,
        conf={**spark.conf, **pairs},
    )
    return replace(target, settings=replace(target.settings, spark=spark))
