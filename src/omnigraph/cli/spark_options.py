"""Options of the commands that may run on Spark: which cluster, and how it is set up."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli.spark_log import log_path, with_quiet_log
from omnigraph.errors import UsageError
from omnigraph.settings import Engine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.cli.addressing import Target
    from omnigraph.cli.output import Output

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
SharedOption = Annotated[
    bool,
    typer.Option(
        "--shared-filesystem",
        rich_help_panel=_PANEL,
        help="Every executor sees the local path of the graph.",
    ),
]
ResumeOption = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="OPERATION_ID",
        rich_help_panel=_PANEL,
        help="Go on with a job that was cut off: what it staged is used if nothing changed.",
    ),
]


def tell_operation(output: "Output", operation_id: str) -> None:
    """Say how a job that is cut off can go on."""
    output.announce(f"operation {operation_id}; if it is cut off, add --resume {operation_id}")


def with_spark(
    target: "Target",
    *,
    engine: Engine | None,
    master: str | None,
    remote: str | None,
    conf: list[str] | None,
    command: str | None = None,
) -> "Target":
    """The target with these options in place of those of the settings.

    `command` names the application on the cluster, unless the settings do.

    Raises:
        UsageError: a master and an endpoint, an option of the session without a value, or an
            option of a session where none is started.
    """
    if master is not None and remote is not None:
        raise UsageError("give --spark-master or --spark-remote, not both")
    options = {"--spark-master": master, "--spark-remote": remote, "--spark-conf": conf or None}
    _require_own_session([name for name, value in options.items() if value is not None], engine)
    spark = target.settings.spark
    if master is not None or remote is not None:
        spark = replace(spark, master=master or spark.master, remote=remote)
    if command is not None and spark.app_name is None:
        spark = replace(spark, app_name=f"omnigraph-{command}")
    spark = replace(
        spark,
        engine=spark.engine if engine is None else engine,
        conf=with_quiet_log(
            {**spark.conf, **read_pairs("--spark-conf", conf)},
            spark.remote,
            log_path(target.settings),
        ),
    )
    return replace(target, settings=replace(target.settings, spark=spark))


def read_pairs(option: str, texts: list[str] | None) -> "Mapping[str, str]":
    """What an option that is repeated as KEY=VALUE says.

    Raises:
        UsageError: one has no key or no sign.
    """
    pairs = {}
    for text in texts or ():
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise UsageError(f"{option} {text!r}: expected KEY=VALUE")
        pairs[key] = value
    return pairs


def _require_own_session(names: list[str], engine: Engine | None) -> None:
    if not names:
        return
    if engine is Engine.LOCAL:
        raise UsageError(
            f"{names[0]} sets up Spark, and --engine local runs in this process; leave one out"
        )

    from omnigraph.api.load_source import has_active_session

    if has_active_session():
        raise UsageError(
            f"{names[0]} sets up a session of Spark, and one is active already, which is used as "
            "it is; leave the option out"
        )
