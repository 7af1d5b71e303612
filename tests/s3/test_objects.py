"""Control objects in a bucket: the contract that files keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.storage.object_contract import ObjectContract
from tests.unit.storage.workbench import Recorder

from omnigraph.clock import SystemClock
from omnigraph.ids import UlidSource
from omnigraph.settings import load_settings
from omnigraph.storage.graph_storage import open_storage
from omnigraph.storage.location import parse_location

if TYPE_CHECKING:
    from tests.s3.stand_in import StandIn

pytestmark = pytest.mark.s3


class Bucket:
    """A prefix of a bucket, with every foreign call recorded."""

    def __init__(self, s3: StandIn) -> None:
        self.seen = Recorder()
        settings = load_settings(s3.environment()).storage
        location = parse_location(s3.uri("g"), settings)
        ids = UlidSource(SystemClock())
        self.objects = open_storage(location, settings, ids, observer=self.seen).objects


@pytest.fixture
def site(s3: StandIn) -> Bucket:
    return Bucket(s3)


class TestInABucket(ObjectContract):
    """Objects are those of S3."""
