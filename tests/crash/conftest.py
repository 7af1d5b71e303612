"""Crash tests import each other as `tests.crash.…`, in the parent and in its children."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from omnigraph.pipeline.spark.session import PipelineSession

_ROOT = str(Path(__file__).parents[2])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)


@pytest.fixture(scope="session")
def java(session: PipelineSession) -> dict[str, str]:
    """What tells a child of the Java of this run, so that it need not start its own."""
    context = session.classic_context
    assert context is not None
    assert context._gateway is not None
    parameters = context._gateway.gateway_parameters
    return {
        "PYSPARK_GATEWAY_PORT": str(parameters.port),
        "PYSPARK_GATEWAY_SECRET": parameters.auth_token,
        "PYSPARK_PYTHON": sys.executable,
        "OMNIGRAPH_PIPELINE_SPLIT_BYTES": "700",
    }
