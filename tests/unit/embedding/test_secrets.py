"""No key and no text reaches a log or an error, whatever a provider does with them."""

import json
import logging
import traceback
from collections.abc import Callable

import httpx
import pytest
from tests.unit.embedding.provider_server import (
    KEY,
    Answer,
    Opener,
    ProviderServer,
    Seen,
    good_body,
)

from omnigraph.embedding import Purpose
from omnigraph.errors import OmnigraphError
from omnigraph.settings import Secret

TEXT = "a-text-that-nobody-may-see"


def _echo(shape: str) -> Callable[[Seen], bytes]:
    """A body that tells both secrets."""
    bodies = {
        "plain": f"{KEY} {TEXT}",
        "error": json.dumps({"error": {"message": f"bad key {KEY} for {TEXT}"}}),
        "row": json.dumps({"data": [{"index": 0, "embedding": [KEY, TEXT]}]}),
        "rows": json.dumps({"data": {KEY: TEXT}}),
        "embeddings": json.dumps({"embedding": {"values": f"{KEY}{TEXT}"}}),
    }
    return lambda _: bodies[shape].encode()


_LOUD = {"X-Echo": f"{KEY} {TEXT}", "Retry-After": f"{KEY} {TEXT}", "Location": f"/{KEY}/{TEXT}"}
_HOSTILE = [
    pytest.param(
        Answer(status=status, reason=f"{KEY} {TEXT}", headers=_LOUD, body=_echo("error")),
        id=str(status),
    )
    for status in (302, 400, 401, 429, 500)
] + [
    *(
        pytest.param(Answer(headers=_LOUD, body=_echo(shape)), id=shape)
        for shape in ("plain", "error", "row", "rows", "embeddings")
    ),
    pytest.param(Answer(headers=_LOUD, body=_echo("plain"), cuts=True), id="cut"),
    pytest.param(Answer(headers={**_LOUD, "Content-Encoding": "gzip"}), id="not gzip"),
    pytest.param(Answer(headers=_LOUD, body=good_body), id="good"),
]


@pytest.mark.parametrize("provider", ["openai", "gemini"])
@pytest.mark.parametrize("answer", _HOSTILE)
def test_a_provider_that_tells_secrets_is_not_quoted(
    server: ProviderServer,
    opener: Opener,
    caplog: pytest.LogCaptureFixture,
    provider: str,
    answer: Answer,
) -> None:
    caplog.set_level(logging.DEBUG)
    server.script = [answer] * 2
    embedder = opener.open(provider, retry_attempts=2)
    shown = [repr(embedder)]
    try:
        embedder.embed([TEXT], dimension=2, purpose=Purpose.QUERY)
    except OmnigraphError as error:
        shown += _shown(error)
    assert server.seen, "the provider was asked"
    assert caplog.records, "the attempts were logged"
    _assert_silent([*shown, *_logged(caplog)])


@pytest.mark.parametrize(
    "key",
    [f"{KEY}\n", f" {KEY}", f"{KEY}\r\nX-Other: 1", f"{KEY}é", f"{KEY}\x00"],
    ids=["newline", "space", "header", "accent", "nul"],
)
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(
    server: ProviderServer, opener: Opener, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(OmnigraphError, match="OPENAI_API_KEY") as caught:
        opener.open(openai_api_key=Secret(key)).embed([TEXT], dimension=2, purpose=Purpose.QUERY)
    assert caught.value.code == "embedding_unavailable"
    assert server.seen == []
    _assert_silent([*_shown(caught.value), *_logged(caplog)])


def test_a_text_that_is_not_unicode_is_refused_without_showing_it(
    server: ProviderServer, opener: Opener
) -> None:
    with pytest.raises(OmnigraphError, match="text 1 of 2") as caught:
        opener.open().embed(["a", f"{TEXT}\ud800"], dimension=2, purpose=Purpose.QUERY)
    assert server.seen == []
    _assert_silent(_shown(caught.value))


def test_a_model_that_is_not_unicode_does_not_show_the_text(opener: Opener) -> None:
    for provider in ("openai", "gemini"):
        embedder = opener.open(provider, model="m\ud800")
        try:
            embedder.embed([TEXT], dimension=2, purpose=Purpose.QUERY)
        except OmnigraphError as error:
            _assert_silent(_shown(error))


def test_a_password_in_the_base_url_is_refused_without_showing_it(opener: Opener) -> None:
    with pytest.raises(OmnigraphError, match="OMNIGRAPH_EMBED_BASE_URL") as caught:
        opener.open(base_url=f"https://user:{KEY}@host/v1")
    _assert_silent(_shown(caught.value))


def test_other_users_of_the_http_library_keep_its_log(
    server: ProviderServer, opener: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    opener.open().embed(["a"], dimension=2, purpose=Purpose.QUERY)
    assert "httpx" not in {record.name for record in caplog.records}
    httpx.post(f"{server.url}/embeddings", json={"input": ["a"], "dimensions": 2})
    assert "httpx" in {record.name for record in caplog.records}


def _shown(error: BaseException) -> list[str]:
    """Every text form of an error, its causes and contexts included, hidden ones too."""
    chain: list[BaseException] = []
    following: BaseException | None = error
    while following is not None:
        chain.append(following)
        following = following.__cause__ or following.__context__
    details = [repr(vars(each)) + repr(each) + str(each) for each in chain]
    return ["".join(traceback.format_exception(error)), *details]


def _logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{record.getMessage()} {vars(record)!r}" for record in caplog.records]


def _assert_silent(shown: list[str]) -> None:
    assert not [text for text in shown if KEY in text or TEXT in text]
