"""What each HTTP provider is sent, and what becomes of its answers."""

import json
import threading
from typing import Any

import numpy as np
import pytest
from tests.unit.embedding.provider_server import (
    KEY,
    Answer,
    Opener,
    ProviderServer,
    openai_body,
    unit_rows,
)

from omnigraph.embedding import Purpose
from omnigraph.errors import EmbeddingInvalid, EmbeddingUnavailable, SettingInvalid
from omnigraph.settings import Secret

HTTP_PROVIDERS = ("openai-compatible", "openai", "gemini")


@pytest.mark.parametrize("provider", HTTP_PROVIDERS)
@pytest.mark.parametrize("texts", [["one"], ["one", "two", "three"]])
def test_a_provider_gives_one_unit_vector_per_text_in_order(
    server: ProviderServer, opener: Opener, provider: str, texts: list[str]
) -> None:
    vectors = opener.open(provider).embed(texts, dimension=5, purpose=Purpose.DOCUMENT)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, unit_rows(texts, 5))
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai-compatible", "openai/text-embedding-3-large"),
        ("openai", "text-embedding-3-large"),
    ],
)
def test_openai_is_sent_model_input_and_dimensions_with_the_key_as_bearer(
    server: ProviderServer, opener: Opener, provider: str, model: str
) -> None:
    embedder = opener.open(provider)
    embedder.embed(["é", "b"], dimension=3, purpose=Purpose.QUERY)
    (seen,) = server.seen
    assert seen.path == "/base/embeddings"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.headers["content-type"] == "application/json"
    assert seen.body == {"model": model, "input": ["é", "b"], "dimensions": 3}
    assert embedder.model == model


@pytest.mark.parametrize(
    ("purpose", "task"),
    [(Purpose.QUERY, "RETRIEVAL_QUERY"), (Purpose.DOCUMENT, "RETRIEVAL_DOCUMENT")],
)
def test_gemini_is_sent_one_text_as_embed_content(
    server: ProviderServer, opener: Opener, purpose: Purpose, task: str
) -> None:
    opener.open("gemini").embed(["a"], dimension=3, purpose=purpose)
    (seen,) = server.seen
    assert seen.path == "/base/models/gemini-embedding-2:embedContent"
    assert seen.headers["x-goog-api-key"] == KEY
    assert "authorization" not in seen.headers
    assert seen.body == _gemini_request("a", task)


def test_gemini_is_sent_several_texts_as_one_batch(server: ProviderServer, opener: Opener) -> None:
    opener.open("gemini").embed(["a", "b"], dimension=3, purpose=Purpose.DOCUMENT)
    (seen,) = server.seen
    assert seen.path == "/base/models/gemini-embedding-2:batchEmbedContents"
    assert seen.body == {
        "requests": [_gemini_request(text, "RETRIEVAL_DOCUMENT") for text in ("a", "b")]
    }


def _gemini_request(text: str, task: str) -> dict[str, Any]:
    return {
        "model": "models/gemini-embedding-2",
        "content": {"parts": [{"text": text}]},
        "taskType": task,
        "outputDimensionality": 3,
    }


def test_the_model_of_the_settings_is_asked_for_and_cannot_change_the_path(
    server: ProviderServer, opener: Opener
) -> None:
    embedder = opener.open("gemini", model="../m?x=1")
    embedder.embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert embedder.model == "../m?x=1"
    assert server.seen[0].path == "/base/models/..%2Fm%3Fx%3D1:embedContent"


def test_a_slash_at_the_end_of_the_base_url_makes_no_difference(
    server: ProviderServer, opener: Opener
) -> None:
    opener.open(base_url=f"{server.url}/").embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert server.seen[0].path == "/base/embeddings"


@pytest.mark.parametrize("provider", ["openai", "gemini"])
@pytest.mark.parametrize(("count", "sizes"), [(0, []), (4, [4]), (5, [4, 1]), (11, [4, 4, 3])])
def test_a_request_has_at_most_the_texts_of_the_setting(
    server: ProviderServer, opener: Opener, provider: str, count: int, sizes: list[int]
) -> None:
    texts = [f"text {at}" for at in range(count)]
    vectors = opener.open(provider, batch_texts=4).embed(
        texts, dimension=6, purpose=Purpose.DOCUMENT
    )
    assert [len(seen.texts) for seen in server.seen] == sizes
    assert vectors.shape == (count, 6)
    if texts:
        np.testing.assert_array_equal(vectors, unit_rows(texts, 6))


def test_rows_in_another_order_are_put_back_by_their_index(
    server: ProviderServer, opener: Opener
) -> None:
    server.script = [openai_body(lambda data: data[::-1])]
    texts = ["a", "b", "c"]
    vectors = opener.open().embed(texts, dimension=4, purpose=Purpose.DOCUMENT)
    np.testing.assert_array_equal(vectors, unit_rows(texts, 4))


def test_rows_without_an_index_keep_their_order(server: ProviderServer, opener: Opener) -> None:
    server.script = [openai_body(lambda data: [{"embedding": each["embedding"]} for each in data])]
    vectors = opener.open().embed(["a", "b"], dimension=4, purpose=Purpose.DOCUMENT)
    np.testing.assert_array_equal(vectors, unit_rows(["a", "b"], 4))


def _with_row(at: int, row: object) -> Answer:
    return openai_body(
        lambda data: [{**each, "embedding": row} if each["index"] == at else each for each in data]
    )


@pytest.mark.parametrize(
    ("answer", "position", "part"),
    [
        pytest.param(_with_row(1, [1.0, 2.0]), 1, "has 2 values", id="too short"),
        pytest.param(_with_row(1, [1.0] * 5), 1, "has 5 values", id="too long"),
        pytest.param(_with_row(2, [1.0, float("nan"), 0.0, 0.0]), 2, "not finite", id="nan"),
        pytest.param(_with_row(2, [float("inf"), 0.0, 0.0, 0.0]), 2, "not finite", id="infinite"),
        pytest.param(_with_row(0, [0.0] * 4), 0, "is zero", id="zero"),
        pytest.param(_with_row(1, [1.0, None, 0.0, 0.0]), 1, "list of numbers", id="null"),
        pytest.param(_with_row(1, ["1", "2", "3", "4"]), 1, "list of numbers", id="texts"),
        pytest.param(_with_row(1, "AAAA"), 1, "list of numbers", id="encoded"),
        pytest.param(_with_row(1, [[1.0], [1.0, 2.0]]), 1, "list of numbers", id="ragged"),
        pytest.param(openai_body(lambda data: data[:2]), 2, "no vector for text 2", id="too few"),
        pytest.param(openai_body(lambda _: []), 0, "no vector for text 0", id="none"),
        pytest.param(
            openai_body(lambda data: [*data, {**data[0], "index": 3}]),
            2,
            "4 vectors for 3 texts",
            id="too many",
        ),
        pytest.param(
            openai_body(lambda data: [data[0], data[0], data[2]]), 0, "index 0", id="index twice"
        ),
        pytest.param(
            openai_body(lambda data: [data[0], {**data[1], "index": -1}, data[2]]),
            0,
            "index -1",
            id="index below 0",
        ),
    ],
)
def test_an_answer_that_breaks_the_contract_is_invalid_at_its_position_and_not_paid_for_again(
    server: ProviderServer, opener: Opener, answer: Answer, position: int, part: str
) -> None:
    server.script = [answer]
    with pytest.raises(EmbeddingInvalid, match=part) as caught:
        opener.open().embed(["a", "b", "c"], dimension=4, purpose=Purpose.DOCUMENT)
    assert caught.value.details["position"] == position
    assert len(server.seen) == 1


def test_the_position_counts_over_all_batches(server: ProviderServer, opener: Opener) -> None:
    server.script = [Answer(), _with_row(1, [1.0])]
    with pytest.raises(EmbeddingInvalid) as caught:
        opener.open(batch_texts=2).embed(list("abcd"), dimension=4, purpose=Purpose.DOCUMENT)
    assert caught.value.details == {"position": 3, "expected": 4, "actual": 1}


def test_too_few_vectors_of_gemini_are_invalid(server: ProviderServer, opener: Opener) -> None:
    body = json.dumps({"embeddings": [{"values": [1, 0]}]}).encode()
    server.script = [Answer(body=lambda _: body)]
    with pytest.raises(EmbeddingInvalid, match="no vector for text 1"):
        opener.open("gemini").embed(["a", "b"], dimension=2, purpose=Purpose.DOCUMENT)


@pytest.mark.parametrize(
    ("provider", "variables"),
    [
        ("openai-compatible", "OPENROUTER_API_KEY or OPENAI_API_KEY"),
        ("openai", "OPENAI_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
    ],
)
def test_a_missing_key_is_told_at_the_first_use_with_its_variable(
    server: ProviderServer, opener: Opener, provider: str, variables: str
) -> None:
    embedder = opener.open(
        provider, openrouter_api_key=None, openai_api_key=None, gemini_api_key=None
    )
    assert embedder.embed([], dimension=3, purpose=Purpose.QUERY).shape == (0, 3)
    with pytest.raises(EmbeddingUnavailable, match=f"set {variables}$") as caught:
        embedder.embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert caught.value.details == {"provider": provider, "status": None}
    assert server.seen == []


def test_the_key_of_the_gateway_comes_before_that_of_the_vendor(
    server: ProviderServer, opener: Opener
) -> None:
    for gateway_key in (Secret("gateway"), None):
        embedder = opener.open(
            "openai-compatible", openrouter_api_key=gateway_key, openai_api_key=Secret("vendor")
        )
        embedder.embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert [seen.headers["authorization"] for seen in server.seen] == [
        "Bearer gateway",
        "Bearer vendor",
    ]


def test_connections_are_kept_between_calls_and_released_by_close(
    server: ProviderServer, opener: Opener
) -> None:
    embedder = opener.open(batch_texts=1)
    for _ in range(3):
        embedder.embed(["a", "b"], dimension=3, purpose=Purpose.QUERY)
    assert (len(server.seen), server.connections) == (6, 1)
    embedder.close()
    embedder.close()
    embedder.embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert server.connections == 2


def test_threads_share_one_embedder_and_each_gets_its_own_rows(opener: Opener) -> None:
    embedder = opener.open(batch_texts=2)
    texts = {name: [f"{name}{at}" for at in range(5)] for name in "abcdef"}
    found: dict[str, Any] = {}

    def run(name: str) -> None:
        found[name] = embedder.embed(texts[name], dimension=7, purpose=Purpose.DOCUMENT)

    threads = [threading.Thread(target=run, args=(name,)) for name in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, rows in found.items():
        np.testing.assert_array_equal(rows, unit_rows(texts[name], 7))
    assert set(found) == set(texts)


def test_a_base_url_that_only_the_http_library_refuses_is_told_at_the_first_use(
    opener: Opener,
) -> None:
    embedder = opener.open(base_url="http://1.2.3.999/v1")
    with pytest.raises(SettingInvalid, match="OMNIGRAPH_EMBED_BASE_URL"):
        embedder.embed(["a"], dimension=3, purpose=Purpose.QUERY)
