"""Spark against engine and reference: generated graphs, generated queries, order included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.extended import thinned
from tests.spark.spark_queries import require_agreement

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.pipeline.spark.session import PipelineSession

_QUERIES = 5
_SOME_GRAPHS = 5
_ALL_GRAPHS = 100
_SEEDS = [
    *thinned(range(_SOME_GRAPHS)),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(_SOME_GRAPHS, _ALL_GRAPHS)),
]


@pytest.mark.parametrize("seed", _SEEDS)
def test_spark_answers_as_the_engine_and_the_reference_do(
    seed: int, tmp_path: Path, session: PipelineSession
) -> None:
    session.require_alive()
    require_agreement(seed, _QUERIES, tmp_path)
