"""The gate to foreign parts: what their failures become, and who sees the calls."""

import pytest
from lance.commit import CommitConflictError
from obstore import exceptions as store_errors
from tests.unit.storage.workbench import Recorder

from omnigraph.errors import (
    GraphNotFound,
    StorageDenied,
    StorageInternalError,
    StorageUnavailable,
)
from omnigraph.failpoints import FailpointHit
from omnigraph.storage.calls import StoreCall, StoreCalls, translate
from omnigraph.storage.signals import AlreadyExists, CommitRefused, ObjectMissing

CALL = StoreCall(operation="commit", target="node:Person")


class PanicException(BaseException):
    """Named as the one that native code raises."""


CASES: list[tuple[Exception, type[Exception]]] = [
    (store_errors.AlreadyExistsError("x"), AlreadyExists),
    (store_errors.NotFoundError("x"), ObjectMissing),
    (FileNotFoundError(2, "No such file"), ObjectMissing),
    (ValueError("Not found: /g/_versions/7.manifest"), ObjectMissing),
    (OSError("LanceError(IO): Object does not exist"), ObjectMissing),
    # The number of a version in a path is not the status of a response.
    (ValueError("Not found: /g/_versions/18446744073709551403.manifest"), ObjectMissing),
    (OSError("Too many concurrent writers on /pytest-403/g"), StorageUnavailable),
    (PermissionError(13, "Permission denied"), StorageDenied),
    (store_errors.PermissionDeniedError("x"), StorageDenied),
    (store_errors.UnauthenticatedError("x"), StorageDenied),
    (OSError("LanceError(IO): Permission denied (os error 13)"), StorageDenied),
    (OSError("Too many concurrent writers"), StorageUnavailable),
    (OSError(28, "No space left on device"), StorageUnavailable),
    (TimeoutError("timed out"), StorageUnavailable),
    (store_errors.GenericError("x"), StorageUnavailable),
    (FailpointHit("publish.ack_lost"), StorageUnavailable),
    (ValueError("bad plan"), StorageInternalError),
    (RuntimeError("bad state"), StorageInternalError),
    (KeyError("x"), StorageInternalError),
    (TypeError("x"), StorageInternalError),
]


@pytest.mark.parametrize(("error", "expected"), CASES, ids=lambda each: repr(each)[:60])
def test_a_foreign_failure_becomes_the_error_that_says_what_to_do(
    error: Exception, expected: type[Exception]
) -> None:
    with pytest.raises(expected) as caught, StoreCalls().making("commit", "node:Person"):
        raise error
    assert caught.value.__cause__ is error
    assert "commit of node:Person" in str(caught.value)


@pytest.mark.parametrize("is_retryable", [True, False])
def test_a_refused_commit_tells_whether_it_is_refused_for_good(*, is_retryable: bool) -> None:
    error = CommitConflictError("conflict")
    error.retryable = is_retryable
    found = translate(error, CALL)
    assert isinstance(found, CommitRefused)
    assert found.is_final is not is_retryable


def test_a_native_panic_is_an_error_that_handlers_can_catch() -> None:
    with (
        pytest.raises(StorageInternalError, match="index out of bounds"),
        StoreCalls().making("merge", "__manifest"),
    ):
        raise PanicException("index out of bounds\nstack")


def test_the_end_of_the_process_passes_through() -> None:
    with pytest.raises(KeyboardInterrupt), StoreCalls().making("merge", "__manifest"):
        raise KeyboardInterrupt


def test_our_own_errors_and_signals_pass_through() -> None:
    for error in (GraphNotFound("x"), AlreadyExists("x")):
        with pytest.raises(type(error)) as caught, StoreCalls().making("get", "x"):
            raise error
        assert caught.value is error


def test_a_message_has_one_line_and_names_no_place_in_foreign_source() -> None:
    found = translate(OSError("first, /root/x/lance/src/io.rs:3:4\nsecond"), CALL)
    assert "second" not in str(found)
    assert ".rs:" not in str(found)
    assert "OSError" in str(translate(OSError(), CALL))


def test_an_observer_sees_each_call_once_and_may_fail_it_before_or_after() -> None:
    seen, made = Recorder(), []
    calls = StoreCalls(seen)

    def call() -> None:
        with calls.making("put", "x"):
            made.append(1)

    def fail(_: StoreCall) -> None:
        raise OSError("down")

    call()
    seen.fault = fail
    with pytest.raises(StorageUnavailable):
        call()
    assert len(made) == 1
    seen.fault, seen.late_fault = None, fail
    with pytest.raises(StorageUnavailable):
        call()
    assert len(made) == 2
    assert seen.calls == [StoreCall(operation="put", target="x")] * 3
