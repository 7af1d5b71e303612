"""`omnigraph embed`: vectors for the records of a file, or for the rows of a graph."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.session import begin_command, name_of
from omnigraph.cli.spark_options import (
    ConfOption,
    LaneOption,
    MasterOption,
    RemoteOption,
    SharedOption,
    with_spark,
)
from omnigraph.errors import InvalidArgument, UsageError
from omnigraph.settings import Engine

if TYPE_CHECKING:
    from omnigraph.cli.session import Session
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.pipeline.embed.file_job import FileJob, FileReport
    from omnigraph.settings import Settings

_HELP: Final = """Turn texts into vectors: those of a file of records, or those of a graph.

\b
Example:
  omnigraph embed --seed examples/papers/seed.yaml --output plain.ndjson --clean

A file is written again with the vectors that its records lack. With --store and --type the @embed
vectors of a graph are filled instead, as one commit, on Spark. The embedder is that of
OMNIGRAPH_EMBED_PROVIDER. Every text is paid for once, also when the command is repeated after it
was cut off.
"""
_STAGES: Final = {
    "handshake": "asking Spark",
    "list": "looking at the graph",
    "survey": "reading texts",
    "embed": "embedding texts",
    "write": "writing the file",
    "resolve": "filling rows",
    "commit": "committing",
}
_INTERRUPTED: Final = (
    "the graph is as before or has all vectors, and what was paid for is kept for the next run"
)
_FILE_INTERRUPTED: Final = "the output is as before, and what was paid for is kept for the next run"
_WAYS: Final = (
    "nothing to embed is named; give --input, --output and --spec, or --seed, or --store and --type"
)
_FILES: Final = "Files"
_GRAPH: Final = "Graph"


def register(app: typer.Typer) -> None:
    """Add `embed`."""
    app.command("embed", help=_HELP)(embed)


def embed(
    context: typer.Context,
    *,
    source: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE", rich_help_panel=_FILES, help="Records to read."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=_FILES, help="Where they are written."),
    ] = None,
    spec: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=_FILES,
            help="The dimension, and for each type the target and the fields of its text.",
        ),
    ] = None,
    seed: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=_FILES,
            help="A manifest that names input, output and spec, instead of them.",
        ),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TYPE:]FIELD=VALUE",
            rich_help_panel=_FILES,
            help="Embed only such records, also those that have a vector; may be repeated.",
        ),
    ] = None,
    clean: Annotated[
        bool,
        typer.Option("--clean", rich_help_panel=_FILES, help="Remove vectors instead."),
    ] = False,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only this type; of files it may be repeated."),
    ] = None,
    reembed_all: Annotated[
        bool, typer.Option("--reembed-all", help="Embed what has a vector already, too.")
    ] = False,
    property_name: Annotated[
        str | None,
        typer.Option(
            "--property",
            metavar="NAME",
            rich_help_panel=_GRAPH,
            help="Only this vector; all @embed vectors of the type without it.",
        ),
    ] = None,
    branch: Annotated[
        str | None,
        typer.Option(metavar="NAME", rich_help_panel=_GRAPH, help="The branch; main without it."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", rich_help_panel=_GRAPH, help="Count rows and texts, embed nothing."
        ),
    ] = False,
    engine: LaneOption = None,
    spark_master: MasterOption = None,
    spark_remote: RemoteOption = None,
    spark_conf: ConfOption = None,
    shared_filesystem: SharedOption = False,
    as_json: JsonOption = False,
) -> int:
    """Embed a file or a graph and print what was done."""
    session = begin_command(context)
    options = _Options(
        source=source,
        output=output,
        spec=spec,
        seed=seed,
        select=tuple(select or ()),
        clean=clean,
        types=tuple(types or ()),
        reembed_all=reembed_all,
        property_name=property_name,
        branch=branch,
        dry_run=dry_run,
        engine=engine,
        spark_master=spark_master,
        spark_remote=spark_remote,
        spark_conf=spark_conf,
        shared_filesystem=shared_filesystem,
    )
    if session.scope.store is None:
        options.require_files()
        return _embed_file(session, options, as_json=as_json)
    options.require_graph()
    return _embed_graph(session, options, name_of(context), as_json=as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The options as they were given."""

    source: Path | None
    output: Path | None
    spec: Path | None
    seed: Path | None
    select: tuple[str, ...]
    clean: bool
    types: tuple[str, ...]
    reembed_all: bool
    property_name: str | None
    branch: str | None
    dry_run: bool
    engine: Engine | None
    spark_master: str | None
    spark_remote: str | None
    spark_conf: list[str] | None
    shared_filesystem: bool

    def require_files(self) -> None:
        """Refuse what does not name a file to embed.

        Raises:
            UsageError: with what to pass.
        """
        for option, chosen in (
            ("--property", self.property_name),
            ("--branch", self.branch),
            ("--dry-run", self.dry_run),
        ):
            if chosen:
                raise UsageError(f"{option} is for a graph; give --store URI too, or leave it out")
        if self.clean and self.reembed_all:
            raise UsageError("--clean removes vectors and --reembed-all makes them; give one")
        if self.seed is not None:
            if self.source is not None or self.spec is not None:
                raise UsageError("--seed names the input and the spec; give it or them")
            return
        paths = {"--input": self.source, "--output": self.output, "--spec": self.spec}
        absent = [option for option, value in paths.items() if value is None]
        if len(absent) == len(paths):
            raise UsageError(_WAYS)
        if absent:
            raise UsageError(f"{' and '.join(absent)} must be given too")

    def require_graph(self) -> None:
        """Refuse what a graph cannot be embedded with.

        Raises:
            UsageError: with what to pass.
        """
        for option, value in (
            ("--input", self.source),
            ("--output", self.output),
            ("--spec", self.spec),
            ("--seed", self.seed),
            ("--select", self.select),
            ("--clean", self.clean),
        ):
            if value:
                raise UsageError(f"{option} is for files, and --store names a graph; give one")
        if len(self.types) != 1:
            raise UsageError("a graph is embedded type by type; give one --type")
        if self.engine is Engine.LOCAL:
            raise UsageError("a graph is embedded on Spark; leave --engine out, or give 'spark'")


def _embed_graph(session: "Session", options: _Options, command: str, *, as_json: bool) -> int:
    from omnigraph.cli.addressing import announce_write, find_write_target
    from omnigraph.cli.progress import ProgressLine, telling_interrupts
    from omnigraph.graph.bodies import commit_body

    target = with_spark(
        find_write_target(session, None, name=None),
        engine=options.engine,
        master=options.spark_master,
        remote=options.spark_remote,
        conf=options.spark_conf,
    )
    announce_write(session, command, target)
    with (
        ProgressLine(session.output, _STAGES) as line,
        telling_interrupts(line, _INTERRUPTED),
        target.open(writes=True) as graph,
        graph.pipeline(shared_filesystem=options.shared_filesystem) as pipeline,
    ):
        report = pipeline.embed(
            type=options.types[0],
            property=options.property_name,
            mode="all" if options.reembed_all else "missing",
            branch=options.branch or "main",
            dry_run=options.dry_run,
            progress=line.follow,
        )
    session.output.announce("engine spark: a graph is embedded on Spark")
    if as_json:
        commit = None if report.commit is None else commit_body(report.commit)
        session.output.write_json(report.to_dict() | {"commit": commit})
        return exit_codes.OK
    for warning in report.warnings:
        session.output.warn(warning)
    session.output.write_facts(_facts(report))
    return exit_codes.OK


def _facts(report: "JobReport") -> dict[str, object]:
    (table,) = report.tables
    texts = sum(stage.rows for stage in report.stages if stage.name == "embed")
    commit = "none, there was nothing to fill"
    if report.dry_run:
        commit = "none, this is a dry run"
    elif report.commit is not None:
        commit = report.commit.graph_commit_id
    return {
        "table": table.table,
        "branch": report.branch,
        "mode": report.mode,
        "rows": f"{table.read:,}",
        "texts paid for" if not report.dry_run else "texts to pay for": f"{texts:,}",
        "filled" if not report.dry_run else "to fill": f"{table.changed:,}",
        "skipped": f"{table.unchanged:,}" if table.unchanged else None,
        "commit": commit,
    }


def _embed_file(session: "Session", options: _Options, *, as_json: bool) -> int:
    from omnigraph.cli.addressing import Target
    from omnigraph.cli.progress import ProgressLine, telling_interrupts
    from omnigraph.pipeline.embed.file_job import embed_file

    target = with_spark(
        Target(uri="", settings=session.require_settings()),
        engine=options.engine,
        master=options.spark_master,
        remote=options.spark_remote,
        conf=options.spark_conf,
    )
    job = _file_job(options, target.settings)
    with (
        ProgressLine(session.output, _STAGES) as line,
        telling_interrupts(line, _FILE_INTERRUPTED),
    ):
        report = embed_file(job, target.settings, progress=line.follow)
    session.output.announce(f"engine {report.engine}: {_why(options, report, target.settings)}")
    if as_json:
        session.output.write_json(report.to_dict())
    else:
        session.output.write_facts(report.to_dict())
    return exit_codes.OK


def _file_job(options: _Options, settings: "Settings") -> "FileJob":
    from omnigraph.cli.source_files import read_source_file
    from omnigraph.pipeline.embed.file_job import FileJob
    from omnigraph.pipeline.embed.file_lines import FileMode, LineChoice
    from omnigraph.pipeline.embed.file_spec import Selector, read_manifest, read_spec

    source, output = options.source, options.output
    if options.seed is not None:
        manifest = read_manifest(read_source_file(options.seed, "--seed"), options.seed)
        source, output, spec = manifest.source, output or manifest.output, manifest.spec
    elif options.spec is not None:
        spec = read_spec(read_source_file(options.spec, "--spec"), str(options.spec))
    if source is None or output is None:
        raise UsageError(_WAYS)
    for name in options.types:
        if name not in spec.types:
            raise InvalidArgument(
                f"the spec has no type {name!r}; it has {', '.join(spec.types)}", type=name
            )
    mode = FileMode.FILL_MISSING
    if options.clean or options.reembed_all:
        mode = FileMode.CLEAN if options.clean else FileMode.REEMBED_ALL
    choice = LineChoice(
        spec=spec,
        mode=mode,
        types=frozenset(options.types),
        selectors=tuple(map(Selector.parse, options.select)),
    )
    return FileJob(source=source, output=output, choice=choice, engine=settings.spark.engine)


def _why(options: _Options, report: "FileReport", settings: "Settings") -> str:
    if options.clean:
        return "vectors are removed in this process"
    if settings.spark.engine is not Engine.AUTO:
        return f"{'--engine' if options.engine else 'OMNIGRAPH_ENGINE is'} {report.engine}"
    most = settings.spark.min_input_bytes
    is_small = report.engine == Engine.LOCAL.value
    return f"a file of {'at most' if is_small else 'more than'} {most:,} bytes"
