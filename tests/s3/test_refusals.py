"""What the answers of a store become, from the texts that Lance and obstore were seen to give."""

import pytest
from obstore.exceptions import GenericError

from omnigraph.errors import (
    InvalidArgument,
    StorageDenied,
    StorageInternalError,
    StorageUnavailable,
)
from omnigraph.storage.calls import StoreCall, translate
from omnigraph.storage.signals import ObjectMissing

CALL = StoreCall(operation="open", target="__manifest")
AT = "http://127.0.0.1:40311/omnigraph?list-type=2&prefix=p%2F403 in 1.403ms"
SOURCE = ", /build/lance/rust/lance-io/src/object_store.rs:1576:42"


def _answer(status: str, code: str) -> str:
    return (
        f"Generic S3 error: Error performing list request: Error performing GET {AT}, after 3"
        f" retries - Server returned non-2xx status code: {status}: <Error><Code>{code}</Code>"
        "<Message>m</Message></Error>"
    )


@pytest.mark.parametrize("kind", [ValueError, OSError, RuntimeError, GenericError])
@pytest.mark.parametrize(
    ("text", "expected", "reason"),
    [
        (_answer("403 Forbidden", "AccessDenied"), StorageDenied, "403 AccessDenied"),
        (_answer("401 Unauthorized", "X"), StorageDenied, "401 X"),
        (_answer("400 Bad Request", "ExpiredToken"), StorageDenied, "400 ExpiredToken"),
        (_answer("500 Internal Server Error", "InternalError"), StorageUnavailable, "500 Inter"),
        (_answer("503 Service Unavailable", "SlowDown"), StorageUnavailable, "503 SlowDown"),
        (_answer("404 Not Found", "NoSuchKey"), ObjectMissing, "404 NoSuchKey"),
        (f"GET {AT} - HTTP error: error sending request", StorageUnavailable, "no answer"),
        (f"GET {AT} - operation timed out", StorageUnavailable, "no answer"),
        (f"Not found: p/__manifest/_versions{SOURCE}{SOURCE}", ObjectMissing, "Not found"),
        ("Permission denied (os error 13)", StorageDenied, "os error 13"),
    ],
)
def test_a_refusal_is_told_by_what_the_server_answered(
    kind: type[Exception], text: str, expected: type[Exception], reason: str
) -> None:
    told = translate(kind(f"{text}\n\nDebug source:\nGeneric {{ secret }}"), CALL)
    assert type(told) is expected
    assert reason in str(told)
    for forbidden in ("\n", "Debug", "secret", ".rs:"):
        assert forbidden not in str(told)


def test_a_number_that_looks_like_a_status_is_none() -> None:
    told = translate(OSError("disk failed at block 403 after 404 ms"), CALL)
    assert type(told) is StorageUnavailable


def test_a_failure_that_nothing_explains_is_internal() -> None:
    assert type(translate(ValueError("schema differs"), CALL)) is StorageInternalError


@pytest.mark.parametrize("kind", [ValueError, FileNotFoundError, GenericError])
def test_a_missing_bucket_is_named_whoever_says_so(kind: type[Exception]) -> None:
    told = translate(kind(_answer("404 Not Found", "NoSuchBucket")), CALL, "s3://absent/g")
    assert isinstance(told, InvalidArgument)
    assert told.details["bucket"] == "absent"
