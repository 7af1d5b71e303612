"""A load into a bucket that was cut off and went on, or failed, leaves no object of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import obstore
import pytest
from tests.load_jobs import spark_load

from omnigraph import Graph
from omnigraph.errors import KeyConflict
from omnigraph.failpoints import armed
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.load.request import LoadRequest
from omnigraph.ids import MAIN_BRANCH
from omnigraph.pipeline.load.leftovers import LoadLeftovers
from omnigraph.pipeline.sources.request import SourceRequest, plan_source
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.s3.stand_in import StandIn

    from omnigraph.graph.jobs.report import JobReport

pytestmark = pytest.mark.s3


class _Killed(BaseException):
    """Stands for the end of the driver: nothing is cleaned up after it."""


def load(graph: Graph, s3: StandIn, source: Path, **options: Any) -> JobReport:  # noqa: ANN401
    """Append a file, in this process."""
    settings = load_settings(s3.environment())
    settings = replace(settings, pipeline=replace(settings.pipeline, split_bytes=200))
    job = spark_load(
        graph,
        None,
        settings,
        [plan_source(SourceRequest(source=str(source)), settings)],
        LoadRequest(mode=LoadMode.APPEND, branch=MAIN_BRANCH),
        external=DENY_ALL,
        **options,
    )
    return job.report()


def staged(s3: StandIn) -> list[str]:
    return [each["path"] for each in obstore.list(s3.endpoint.store("graph/__staging")).collect()]


def test_a_load_that_went_on_or_failed_leaves_no_object(
    s3: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "people.jsonl"
    lines = [json.dumps({"type": "Person", "data": {"name": f"p{n}"}}) for n in range(20)]
    source.write_text("\n".join(lines))
    told: list[str] = []
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)  # What tasks are told.

    def end() -> None:
        raise _Killed

    settings = load_settings(s3.environment())
    schema = "node Person { name: String @key }"
    with Graph.init(s3.uri("graph"), schema=schema, settings=settings) as graph:
        with monkeypatch.context() as patched:
            patched.setattr(LoadLeftovers, "_clear", lambda _: None)
            patched.setattr(LoadLeftovers, "remove_files", lambda _: None)
            with armed("spark_load.post_intake", end), pytest.raises(_Killed):
                load(graph, s3, source, started=told.append)
        assert staged(s3)
        report = load(graph, s3, source, resume=told[0])
        assert (report.tables[0].added, report.warnings) == (20, ())
        assert staged(s3) == []
        assert load(graph, s3, source, resume=told[0]).already_loaded
        assert staged(s3) == []
        with pytest.raises(KeyConflict):
            load(graph, s3, source)
        assert staged(s3) == []
        assert len(b"".join(graph.export()).splitlines()) == 20
