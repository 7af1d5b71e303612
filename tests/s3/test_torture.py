"""On S3 too, history explains what killed and stopped processes leave."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.race.torture import Torture
from tests.s3.stand_in import stand_in_process

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.s3, pytest.mark.slow, pytest.mark.crash, pytest.mark.timeout(1800)]


def test_history_explains_what_killed_and_stopped_processes_leave_in_a_bucket(
    tmp_path: Path,
) -> None:
    seed = int(os.environ.get("RACE_SEED") or int.from_bytes(os.urandom(4), "big"))
    with stand_in_process() as server:
        Torture(
            root=server.uri(f"torture-{seed}"),
            folder=tmp_path,
            seed=seed,
            writers=4,
            count=300,
            seconds=120,
            environment=server.environment(),
            # The stand-in answers one request at a time.
            ttl_ms=1_000,
        ).run()
