"""The choice of the embedder that the settings name.

Nothing is sent, loaded or asked for here: a graph that never embeds needs neither a key nor the
HTTP library nor the package of a local model.
"""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Final

from omnigraph.embedding.checked import CheckedEmbedder
from omnigraph.embedding.gemini import GEMINI
from omnigraph.embedding.http_embedder import HttpEmbedder
from omnigraph.embedding.loaded import LoadedEmbedder
from omnigraph.embedding.mock import MockEmbedder
from omnigraph.embedding.openai import OPENAI, OPENAI_COMPATIBLE
from omnigraph.errors import SettingInvalid
from omnigraph.ids import UlidSource
from omnigraph.settings.values import EMBED_MODELS, parse_provider

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.clock import Clock
    from omnigraph.ids import IdSource
    from omnigraph.settings import EmbeddingSettings

log = logging.getLogger(__name__)

_WIRES: Final = {wire.provider: wire for wire in (OPENAI_COMPATIBLE, OPENAI, GEMINI)}
_BASE_URL: Final = re.compile(
    r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?(/[A-Za-z0-9._~%:/-]*)?"
)


def open_embedder(
    settings: EmbeddingSettings,
    clock: Clock,
    *,
    ids: IdSource | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> CheckedEmbedder:
    """The embedder of the settings, behind its checks; whoever opens it closes it.

    A mock chosen by `OMNIGRAPH_EMBEDDINGS_MOCK` is logged as a warning.

    Args:
        settings: provider, model, keys, and how long and how often to ask.
        clock: measures deadlines and reads dates of `Retry-After`.
        ids: where jitter comes from.
        pause: waits so many seconds between two attempts.

    Raises:
        SettingInvalid: the provider or the base URL is malformed.
    """
    provider = "mock" if settings.mock else _provider(settings)
    model = settings.model or EMBED_MODELS.get(provider)
    if provider == "mock":
        if settings.mock:
            log.warning(
                "mock embeddings: vectors look real and mean nothing",
                extra={"variable": "OMNIGRAPH_EMBEDDINGS_MOCK"},
            )
        mock = MockEmbedder(model or provider)
        return CheckedEmbedder(mock, batch_texts=settings.batch_texts, release=None)
    if provider not in _WIRES:
        loaded = LoadedEmbedder(provider, wanted_model=model)
        return CheckedEmbedder(loaded, batch_texts=settings.batch_texts, release=None)
    wire = _WIRES[provider]
    embedder = HttpEmbedder(
        wire,
        settings,
        base_url=_base_url(settings.base_url or wire.base_url),
        model=model or EMBED_MODELS[provider],
        clock=clock,
        ids=ids or UlidSource(clock),
        pause=pause,
    )
    # It cuts its batches itself, because one deadline covers all of them.
    return CheckedEmbedder(embedder, batch_texts=None, release=embedder.close)


def _provider(settings: EmbeddingSettings) -> str:
    try:
        return parse_provider(settings.provider)
    except ValueError as error:
        raise SettingInvalid(
            f"OMNIGRAPH_EMBED_PROVIDER: {settings.provider!r} is not valid; {error}",
            name="OMNIGRAPH_EMBED_PROVIDER",
        ) from error


def _base_url(text: str) -> str:
    if not _BASE_URL.fullmatch(text):
        # The value is not shown: what does not belong there may be a password.
        raise SettingInvalid(
            "OMNIGRAPH_EMBED_BASE_URL: expected http:// or https:// with a host and perhaps a port"
            " and a path, without user, query or fragment",
            name="OMNIGRAPH_EMBED_BASE_URL",
        )
    return text.rstrip("/")
