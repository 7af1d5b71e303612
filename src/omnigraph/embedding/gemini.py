"""The provider `gemini`: `:embedContent` for one text, `:batchEmbedContents` for several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from omnigraph.embedding.embedder import Purpose
from omnigraph.embedding.wire import Ask, IndexedRow, Wire, items, member

if TYPE_CHECKING:
    from omnigraph.errors import JsonValue

_TASK_TYPES: Final = {
    Purpose.QUERY: "RETRIEVAL_QUERY",
    Purpose.DOCUMENT: "RETRIEVAL_DOCUMENT",
}


def _key_header(key: str) -> tuple[str, str]:
    return "x-goog-api-key", key


def _path_and_body(ask: Ask) -> tuple[str, JsonValue]:
    model = f"/models/{quote(ask.model, safe='')}"
    requests = [_request(ask, text) for text in ask.texts]
    if len(requests) == 1:
        return f"{model}:embedContent", requests[0]
    return f"{model}:batchEmbedContents", {"requests": requests}


def _request(ask: Ask, text: str) -> JsonValue:
    return {
        "model": f"models/{ask.model}",
        "content": {"parts": [{"text": text}]},
        "taskType": _TASK_TYPES[ask.purpose],
        "outputDimensionality": ask.dimension,
    }


def _read_rows(answer: object) -> list[IndexedRow]:
    if isinstance(answer, dict) and "embedding" in answer:
        return [(0, member(answer["embedding"], "values"))]
    return [
        (at, member(item, "values")) for at, item in enumerate(items(member(answer, "embeddings")))
    ]


GEMINI: Final = Wire(
    provider="gemini",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    keys={"GEMINI_API_KEY": lambda settings: settings.gemini_api_key},
    key_header=_key_header,
    path_and_body=_path_and_body,
    read_rows=_read_rows,
)
