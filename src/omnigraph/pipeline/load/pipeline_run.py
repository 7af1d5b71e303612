"""A run of a `pipeline.yaml`: its sources into their types, as one commit that knows its cursors.

The same run again is no second commit: a run is known by its name, mapping, mode, the marks of its
files and the ranges of its cursors. Two runs that start from the same state cannot both commit.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from omnigraph.errors import (
    IdempotencyKeyReused,
    InternalError,
    InvalidArgument,
    ReadSetChanged,
    SourceError,
)
from omnigraph.graph.history.pipeline_history import read_history
from omnigraph.graph.history.snapshot import open_snapshot
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.load.receipts import repeat_receipt
from omnigraph.graph.load.request import parse_load_request
from omnigraph.ids import new_operation_id
from omnigraph.lang.suggest import did_you_mean
from omnigraph.pipeline.files.source_errors import changes_told, source_errors
from omnigraph.pipeline.intake.inputs import marks_of
from omnigraph.pipeline.load.followed_source import FollowedSource, follow
from omnigraph.pipeline.load.job import SparkLoad
from omnigraph.pipeline.sources.cursors import (
    CursorRange,
    find_range,
    has_nothing_to_read,
    lagged,
    near,
)
from omnigraph.pipeline.sources.precheck import precheck
from omnigraph.pipeline.sources.request import (
    find_named,
    source_of,
)
from omnigraph.pipeline.sources.sources import FrameSource, LineFiles, ParquetFiles
from omnigraph.pipeline.spark.lanes import require_spark
from omnigraph.pipeline.spec.column_map import TargetSpec, mistakes_told, require_target
from omnigraph.pipeline.spec.mistakes import Mistakes, as_one, mistakes_of
from omnigraph.pipeline.spec.pipeline_spec import EdgeMapping, SourceFormat, text_digest
from omnigraph.storage.input_files import InputFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from omnigraph.graph.blobs.addresses import ExternalBlobs
    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.history.pipeline_history import PipelineHistory
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.load.request import LoadRequest
    from omnigraph.lang.catalog import Catalog
    from omnigraph.pipeline.sources.sources import LoadSource
    from omnigraph.pipeline.spark.job import JobContext
    from omnigraph.pipeline.spec.mistakes import Mistake
    from omnigraph.pipeline.spec.pipeline_spec import NodeMapping, PipelineSpec, SourceSpec
    from omnigraph.settings import Settings

_DIGEST_BYTES: Final = 20
_PLANS: Final = 3
"""How often a run is planned when others, or a recovery, were faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a pipeline is run."""

    only: Sequence[str] | None = None
    """Names of sources; the others are left alone."""
    full_refresh: bool = False
    """Read every source from its beginning."""
    keep_cursor: bool = False
    """Go on from a cursor although the source or its mapping changed."""
    force: bool = False
    """Load although the same run was committed before."""
    dry_run: bool = False
    resume: str | None = None
    """The operation of a run that was cut off."""

    def __post_init__(self) -> None:
        if self.full_refresh and self.keep_cursor:
            raise InvalidArgument(
                "a full refresh reads from the beginning and keeping the cursor does not; say one"
                " of the two",
                argument="keep_cursor",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlannedSource:
    """One source of a run."""

    spec: SourceSpec
    source: LoadSource
    marks: Sequence[str] | None
    """What tells its rows from those of another run; `None` when nothing does."""
    cursor: Mapping[str, Any] | None = None
    """What the commit keeps: `value` and `mapping`."""
    warnings: tuple[str, ...] = ()

    @property
    def frame(self) -> FrameSource | None:
        """What Spark reads of it, if it does."""
        if isinstance(self.source, ParquetFiles):
            return self.source.through_spark if self.source.has_expressions else None
        return self.source if isinstance(self.source, FrameSource) else None

    @property
    def is_whole(self) -> bool:
        """Whether all of it is read, and it is known what that is."""
        return self.spec.cursor is None and self.marks is not None

    @property
    def rereads(self) -> bool:
        """Whether every run reads again some of what the run before has read."""
        return self.spec.cursor is not None and bool(self.spec.cursor.lag)


class PipelineRun:
    """One run of one file; Spark is asked for when it is needed."""

    def __init__(
        self,
        graph: GraphCoordinator,
        settings: Settings,
        open_job: Callable[[], JobContext],
        spec: PipelineSpec,
        options: RunOptions,
        *,
        external: ExternalBlobs,
        actor_id: str | None = None,
        started: Callable[[str], None] | None = None,
    ) -> None:
        self._graph = graph
        self._open_job = open_job
        self._settings = settings
        self._spec = spec
        self._options = options
        self._external = external
        self._actor_id = actor_id
        self._started = started

    def report(self) -> JobReport:
        """Run it.

        Raises:
            InvalidArgument: `only` names no source, or a cursor no longer fits its source.
            ReadSetChanged: other runs of the same pipeline were committed meanwhile, again and
                again.
        """
        for left in reversed(range(_PLANS)):
            try:
                return self._report()
            except IdempotencyKeyReused as error:
                if not left:
                    raise ReadSetChanged(
                        f"other runs of the pipeline {self._spec.name!r} were committed meanwhile;"
                        " run it again, it then starts from there",
                        **error.details,
                    ) from error
        raise InternalError("a run was planned not once; please report this")

    def _report(self) -> JobReport:
        names = _chosen(self._spec, self._options.only)
        line = self._graph.lines.read(self._graph.branch_id(self._spec.branch))
        history = read_history(line, self._spec.name)
        catalog = open_snapshot(self._graph, None, self._spec.branch).catalog
        mistakes = Mistakes()
        self._look_at_targets(catalog, names, mistakes)
        specs = [self._spec.sources[name] for name in names]
        planned = self._planned(specs, history, catalog, mistakes)
        job_key = self._job_key(planned)
        kept = history.sources | {
            each.spec.name: self._source_key(each) for each in planned if each.is_whole
        }
        cursors = history.cursors | {
            each.spec.name: each.cursor for each in planned if each.cursor is not None
        }
        done = self._done(job_key, planned, history)
        warnings = tuple(text for each in planned for text in each.warnings)
        if done is not None and not self._options.force:
            return self._repeat_receipt(done, job_key, cursors, warnings)
        stats = {
            "name": self._spec.name,
            "job_key": job_key,
            "cursors": cursors,
            "sources": kept,
        }
        report = self._load(self._unread(planned, history), stats, history)
        # Without a commit nothing was kept, and the next run starts where this one did.
        is_kept = report.commit is not None or report.dry_run
        told = cursors if is_kept else history.cursors
        return replace(
            report,
            job_key=job_key,
            cursors={name: each["value"] for name, each in told.items()},
            warnings=(*warnings, *report.warnings),
        )

    def _done(
        self,
        job_key: str | None,
        planned: Sequence[_PlannedSource],
        history: PipelineHistory,
    ) -> Commit | None:
        """The commit of an earlier run that makes this one needless."""
        done = None if job_key is None else history.by_job_key.get(job_key)
        if done is None or not any(each.rereads for each in planned):
            return done
        # What was read twice may have changed in between, and be again as it was at first.
        return done if done.graph_commit_id == history.last_id else None

    def _load(
        self,
        planned: Sequence[_PlannedSource],
        stats: Mapping[str, Any],
        history: PipelineHistory,
    ) -> JobReport:
        job_key = stats["job_key"]
        load = SparkLoad(
            self._open_job(),
            [each.source for each in planned],
            replace(self._request(), idempotency_key=self._turn(history)),
            external=self._external,
            stats={"pipeline": stats},
            # Without a job key, or by force, no other run is the same as this one.
            digest=new_operation_id(self._graph.ids)
            if job_key is None or self._options.force
            else job_key,
            started=self._started,
        )
        try:
            return load.report()
        finally:
            for each in planned:
                if isinstance(each.source, FrameSource):
                    each.source.release()

    def _unread(
        self, planned: Sequence[_PlannedSource], history: PipelineHistory
    ) -> list[_PlannedSource]:
        """The sources without those that the last run has read as they are.

        Only beside a cursor: the range of a cursor makes every run another one, and what has none
        would be loaded again by each. Without cursors the job key tells that all is done. After a
        run that rejected rows all is read: what they missed may be there by now.
        """
        if self._options.force or self._options.full_refresh:
            return list(planned)
        if history.had_rejects or not any(each.spec.cursor for each in planned):
            return list(planned)
        return [
            each
            for each in planned
            if not (each.is_whole and history.sources.get(each.spec.name) == self._source_key(each))
        ]

    def _source_key(self, planned: _PlannedSource) -> str:
        """What tells a source that is read as a whole, and what is made of it, from any other."""
        spec = self._spec
        how = [spec.mode.value, spec.embed, spec.mapping_hash(planned.spec.name)]
        how += ["partial"] if spec.partial else []
        return _digest([*how, *(planned.marks or ())])

    def _request(self) -> LoadRequest:
        bad = self._spec.on_error
        return parse_load_request(
            self._settings,
            self._actor_id,
            mode=self._spec.mode,
            branch=self._spec.branch,
            on_error=bad.action,
            rejects=bad.rejects,
            max_rejects=bad.max_rejects,
            max_reject_ratio=bad.max_reject_ratio,
            cascade=bad.cascade,
            partial=self._spec.partial,
            embed=self._spec.embed,
            dry_run=self._options.dry_run,
            resume=self._options.resume,
        )

    def _look_at_targets(self, catalog: Catalog, names: Sequence[str], mistakes: Mistakes) -> None:
        """Find what the schema does not have."""
        for name in names:
            for target in self._targets(name):
                with mistakes.of_part(), mistakes_told(name, target):
                    require_target(catalog, target)

    def _targets(self, source: str) -> list[TargetSpec]:
        keeps = self._spec.partial or self._spec.mode is LoadMode.UPDATE
        return [
            *(
                _target(each, "node", keeps_values=keeps)
                for each in self._spec.nodes
                if each.source == source
            ),
            *(
                _target(each, "edge", keeps_values=keeps)
                for each in self._spec.edges
                if each.source == source
            ),
        ]

    def _planned(
        self,
        specs: Sequence[SourceSpec],
        history: PipelineHistory,
        catalog: Catalog,
        mistakes: Mistakes,
    ) -> list[_PlannedSource]:
        """All sources; those with a cursor last, because they need Spark.

        Raises:
            InvalidArgument, SourceError: with all mistakes that show before Spark is needed.
        """
        planned: dict[str, _PlannedSource] = {}
        followed: dict[str, FollowedSource] = {}
        for each in specs:
            with mistakes.of_part(), _told_of(each.name):
                if each.cursor is None:
                    planned[each.name] = self._plan(each)
                    precheck(catalog, planned[each.name].source)
                else:
                    targets = self._targets(each.name)
                    source = follow(each, each.cursor, self._spec, targets, self._settings)
                    source.precheck(catalog)
                    followed[each.name] = source
        mistakes.require_none()
        if followed:
            frames = [(each.spec, each.whole) for each in followed.values()]
            frames += [(each.spec, each.frame) for each in planned.values() if each.frame]
            told = [frame for spec, frame in frames if _tells_columns(spec)]
            self._look_at_columns(catalog, told, mistakes)
        for name, source in followed.items():
            with mistakes.of_part(), _told_of(name):
                planned[name] = self._plan_cursor(source, history)
        mistakes.require_none()
        return [planned[each.name] for each in specs]

    def _look_at_columns(
        self, catalog: Catalog, sources: Sequence[FrameSource], mistakes: Mistakes
    ) -> None:
        """Find what shows in the columns of frames, before rows are read for a cursor.

        Raises:
            InvalidArgument, SourceError: with all mistakes.
        """
        spark = require_spark(self._open_job().lane)
        with spark.configured():
            for each in sources:
                with mistakes.of_part(), _told_of(each.name):
                    each.require_fitting(catalog, spark.session)
        mistakes.require_none()

    def _plan(self, spec: SourceSpec) -> _PlannedSource:
        targets = self._targets(spec.name)
        if spec.format is SourceFormat.NDJSON:
            files = InputFiles(self._settings.storage).find(spec.path or "")
            return _PlannedSource(
                spec=spec,
                source=LineFiles(files=files, split_bytes=self._settings.pipeline.split_bytes),
                marks=marks_of(files),
            )
        named = find_named(spec, self._spec, self._settings)
        source = source_of(spec, targets, self._settings, named)
        marks = source.marks
        warnings = (
            ()
            if marks is not None
            else (
                f"source {spec.name!r} ({spec.format}) has no files or cursor to detect changes, so"
                " every run reloads it",
            )
        )
        return _PlannedSource(spec=spec, source=source, marks=marks, warnings=warnings)

    def _plan_cursor(self, followed: FollowedSource, history: PipelineHistory) -> _PlannedSource:
        spec = followed.spec
        with changes_told(followed.require_same):
            span, cursor = self._look_for_range(followed, history)
        if followed.require_same is not None:
            followed.require_same()
        # A range says what is new, not what is in it: all of it again is another run.
        refreshed = history.last_id if self._options.full_refresh else None
        # Rows may come late into a range that was read, or change in one that a lag reads again:
        # it is known by their number, and by what they hold.
        within = [span.after, span.until, span.rows, span.without_value, refreshed]
        within += [span.content] if span.content else []
        marks = [json.dumps([spec.name, *within])]
        warnings = (
            (
                f"source {spec.name!r} has {span.without_value:,} rows without a value in"
                f" `{followed.cursor.column}`; only a full refresh reads them",
            )
            if span.without_value
            else ()
        )
        return _PlannedSource(
            spec=spec,
            source=followed.within(span, marks),
            marks=marks,
            cursor=cursor,
            warnings=warnings,
        )

    def _look_for_range(
        self, followed: FollowedSource, history: PipelineHistory
    ) -> tuple[CursorRange, Mapping[str, Any] | None]:
        """What is new in a source, and what the commit keeps; `None` leaves what was kept."""
        spec, cursor, secrets = followed.spec, followed.cursor, followed.secrets
        spark = require_spark(self._open_job().lane)
        with spark.configured():
            frame, _ = followed.whole.look(spark.session)
            with source_errors(spec.name, secrets):
                columns = frame.dtypes
            if has_nothing_to_read(frame, spec, spark.runner, secrets):
                kept = history.cursors.get(spec.name, {}).get("value")
                return CursorRange(after=kept, until=None, has_types=False), None
            mapping = self._mapping(spec.name, columns)
            last = self._last(spec, mapping, history)
            around = near(cursor, lagged(cursor, last))
            with source_errors(spec.name, secrets):
                newer = frame if around is None else followed.opened(spark.session, around)
            span = find_range(
                newer,
                cursor,
                last,
                spark.runner,
                source=spec.name,
                used=[name for name, _ in columns if self._spec.mentions(spec.name, name)],
                secrets=secrets,
            )
        reached = last if span.until is None else span.until
        return span, None if reached is None else {"value": reached, "mapping": mapping}

    def _mapping(self, source: str, columns: Sequence[tuple[str, str]]) -> str:
        """What a cursor holds for: a source, what is made of it, and the types of what is used."""
        used = sorted(each for each in columns if self._spec.mentions(source, each[0]))
        return _digest([self._spec.mapping_hash(source), used])

    def _last(self, spec: SourceSpec, mapping: str, history: PipelineHistory) -> Any:  # noqa: ANN401 - a JSON value
        """Where the run before ended; `None` to read from the beginning."""
        kept = history.cursors.get(spec.name)
        if kept is None or self._options.full_refresh:
            return None
        if kept["mapping"] != mapping and not self._options.keep_cursor:
            raise InvalidArgument(
                f"source {spec.name!r} or what is made of it changed since its cursor was kept"
                f" ({kept['value']}): rows read before would stay as they were; run with"
                " --full-refresh to read all of it again, or with --keep-cursor to go on",
                argument="full_refresh",
                source=spec.name,
            )
        return kept["value"]

    def _job_key(self, planned: Sequence[_PlannedSource]) -> str | None:
        if any(each.marks is None for each in planned):
            return None
        known = {
            "name": self._spec.name,
            "mode": self._spec.mode.value,
            "embed": self._spec.embed,
            **({"partial": True} if self._spec.partial else {}),
            "sources": {
                each.spec.name: [self._spec.mapping_hash(each.spec.name), *(each.marks or ())]
                for each in planned
            },
        }
        return _digest(known)

    def _turn(self, history: PipelineHistory) -> str:
        """The key that only one run after the same state can have."""
        return f"pipeline:{self._spec.name}:after:{history.last_id}"

    def _repeat_receipt(
        self,
        done: Commit,
        job_key: str | None,
        cursors: Mapping[str, Any],
        warnings: tuple[str, ...],
    ) -> JobReport:
        report = repeat_receipt(done, job_key, self._request())
        return replace(
            report,
            dry_run=self._options.dry_run,
            cursors={name: each["value"] for name, each in cursors.items()},
            warnings=warnings,
        )


@contextmanager
def _told_of(source: str) -> Iterator[None]:
    """Errors of a source that do not name it."""
    try:
        yield
    except (InvalidArgument, SourceError) as error:
        raise as_one([_of_source(each, source) for each in mistakes_of(error)]) from error


def _of_source(error: Mistake, source: str) -> Mistake:
    if "source" in error.details:
        return error
    return type(error)(f"source {source!r}: {error.message}", **error.details | {"source": source})


def _tells_columns(spec: SourceSpec) -> bool:
    """Whether the columns of a source show before its rows are read."""
    return spec.format not in (SourceFormat.CSV, SourceFormat.JSON) or spec.schema is not None


def _digest(known: object) -> str:
    return text_digest(json.dumps(known, sort_keys=True), size_bytes=_DIGEST_BYTES)


def _chosen(spec: PipelineSpec, only: Sequence[str] | None) -> list[str]:
    for name in only or ():
        if name not in spec.sources:
            hint = did_you_mean(name, list(spec.sources), otherwise="it has")
            raise InvalidArgument(
                f"the pipeline {spec.name!r} has no source {name!r}{hint}", argument="only"
            )
        if not spec.feeds_types(name):
            raise InvalidArgument(
                f"nothing is made from source {name!r} of the pipeline {spec.name!r}, only queries"
                " read it; name the sources of these queries",
                argument="only",
            )
    if only is not None and not only:
        raise InvalidArgument("`only` names no source; leave it out to run all", argument="only")
    return [
        name for name in spec.sources if (only is None or name in only) and spec.feeds_types(name)
    ]


def _target(mapping: NodeMapping | EdgeMapping, kind: str, *, keeps_values: bool) -> TargetSpec:
    ends = {"src": mapping.src, "dst": mapping.dst} if isinstance(mapping, EdgeMapping) else {}
    return TargetSpec(
        type=f"{kind}:{mapping.type}",
        columns=mapping.columns,
        id=mapping.id,
        ends={end: given for end, given in ends.items() if given is not None},
        where=mapping.where,
        distinct=mapping.distinct,
        dedupe=mapping.dedupe,
        keeps_values=keeps_values,
        places=mapping.places,
        filled=mapping.filled,
    )
