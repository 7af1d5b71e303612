"""`examples/papers/impact.py` from end to end, on the session of the tests."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from omnigraph.pipeline.spark.session import PipelineSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "papers" / "impact.py"


@pytest.mark.extended
def test_the_job_reads_asks_measures_and_follows(
    tmp_path: Path, session: PipelineSession, capsys: pytest.CaptureFixture[str]
) -> None:
    session.activate()
    runpy.run_path(str(EXAMPLE))["main"]([str(tmp_path / "papers.omni")])
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "Citations by the year of what is cited"
    assert "Topics: 4 rows" in printed[3]
    assert printed[-1] == "  10 Paper: update"
    session.require_alive()
