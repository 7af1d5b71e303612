"""Which embedder the settings choose, and what opening it costs."""

import logging
import pickle
import subprocess
import sys

import pytest
from tests.unit.embedding.provider_server import Opener, ProviderServer

from omnigraph.clock import SystemClock
from omnigraph.embedding import Purpose, open_embedder
from omnigraph.errors import SettingInvalid
from omnigraph.settings import EmbeddingSettings, Secret, load_settings

_OPENED = """
import sys
from omnigraph.clock import SystemClock
from omnigraph.embedding import open_embedder
from omnigraph.settings import EmbeddingSettings
open_embedder(EmbeddingSettings(), SystemClock()).close()
print(*sys.modules)
"""

_EXECUTOR = """
import pickle, sys
from omnigraph.clock import SystemClock
from omnigraph.embedding import Purpose, open_embedder
with open_embedder(pickle.load(sys.stdin.buffer), SystemClock()) as embedder:
    rows = embedder.embed(["a", "b"], dimension=3, purpose=Purpose.DOCUMENT)
sys.stdout.buffer.write(rows.tobytes())
"""


def test_opening_loads_no_http_library_and_needs_no_key() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _OPENED], capture_output=True, text=True, check=True
    )
    assert not {"httpx", "httpcore", "lance", "pandas"} & set(done.stdout.split())


@pytest.mark.parametrize(
    ("environ", "model"),
    [
        ({}, "openai/text-embedding-3-large"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "openai"}, "text-embedding-3-large"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "gemini"}, "gemini-embedding-2"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "mock"}, "mock"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "mock", "OMNIGRAPH_EMBED_MODEL": "m"}, "m"),
        ({"OMNIGRAPH_EMBED_MODEL": "m"}, "m"),
        ({"OMNIGRAPH_EMBEDDINGS_MOCK": "1", "OMNIGRAPH_EMBED_PROVIDER": "gemini"}, "mock"),
    ],
)
def test_the_environment_chooses_provider_and_model(environ: dict[str, str], model: str) -> None:
    settings = load_settings(environ).embedding
    assert open_embedder(settings, SystemClock()).model == model


@pytest.mark.parametrize("provider", ["openai-compatible", "openai", "gemini", "mock"])
def test_settings_that_were_not_loaded_have_the_same_default_model(provider: str) -> None:
    loaded = load_settings({"OMNIGRAPH_EMBED_PROVIDER": provider}).embedding
    plain = EmbeddingSettings(provider=provider)
    assert open_embedder(plain, SystemClock()).model == loaded.model


def test_the_mock_variable_wins_and_warns_once(
    server: ProviderServer, opener: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = opener.open("openai", mock=True)
    for _ in range(2):
        embedder.embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "mock embeddings: vectors look real and mean nothing")
    ]
    assert server.seen == []


def test_the_provider_mock_chosen_by_name_does_not_warn(
    opener: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    opener.open("mock").embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert caplog.records == []


def test_a_provider_that_nobody_knows_is_refused() -> None:
    with pytest.raises(SettingInvalid, match="OMNIGRAPH_EMBED_PROVIDER: 'openia'"):
        open_embedder(EmbeddingSettings(provider="openia"), SystemClock())


@pytest.mark.parametrize(
    "base_url",
    ["host/v1", "ftp://host", "https://", "https://u@host", "https://host?k=v", "https://h/v1#x"],
)
def test_a_base_url_that_is_none_is_refused_when_opened(base_url: str) -> None:
    with pytest.raises(SettingInvalid, match="OMNIGRAPH_EMBED_BASE_URL") as caught:
        open_embedder(EmbeddingSettings(base_url=base_url), SystemClock())
    assert caught.value.details == {"name": "OMNIGRAPH_EMBED_BASE_URL"}


def test_an_executor_opens_the_same_embedder_from_pickled_settings(
    server: ProviderServer, opener: Opener
) -> None:
    settings = EmbeddingSettings(
        provider="openai", base_url=server.url, openai_api_key=Secret("k"), batch_texts=1
    )
    done = subprocess.run(
        [sys.executable, "-c", _EXECUTOR],
        input=pickle.dumps(settings),
        env={"NO_PROXY": "127.0.0.1"},
        capture_output=True,
        check=True,
    )
    here = opener.open().embed(["a", "b"], dimension=3, purpose=Purpose.DOCUMENT)
    assert done.stdout == here.tobytes()
    assert [seen.headers["authorization"] for seen in server.seen[:2]] == ["Bearer k"] * 2
