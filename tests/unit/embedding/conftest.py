"""Lets the tests import the module beside them, and starts the server that plays the providers."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = str(Path(__file__).parents[3])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

from tests.unit.embedding.provider_server import Opener, ProviderServer  # noqa: E402 - the path


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    """A provider on the loopback interface that answers well unless told otherwise."""
    with ProviderServer() as running:
        yield running


@pytest.fixture
def opener(server: ProviderServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opener]:
    """Opens embedders that ask the server, on a clock that only their pauses move."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with Opener(server.url) as opening:
        yield opening
