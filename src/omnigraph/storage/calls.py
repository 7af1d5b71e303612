"""The one gate between this package and the parts it calls: Lance, the object store, the disk.

Every foreign call is made inside `StoreCalls.making`. It names the call, shows it to an observer
(counters of the cost tests, faults of the crash tests), and translates what the foreign part
raises, once: to a typed error, or to a signal when the commit protocol must act on it. A native
panic is a `BaseException` that ordinary handlers miss; it ends here as `StorageInternalError`.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from lance.commit import CommitConflictError
from obstore import exceptions as store_errors

from omnigraph.errors import (
    InvalidArgument,
    OmnigraphError,
    StorageDenied,
    StorageInternalError,
    StorageUnavailable,
)
from omnigraph.failpoints import FailpointHit
from omnigraph.storage.signals import (
    AlreadyExists,
    CommitRefused,
    ObjectMissing,
    StorageSignal,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATUS = re.compile(r"status code: (?P<status>[1-5]\d\d)", re.IGNORECASE)
_CODE = re.compile(r"<Code>(?P<code>\w+)</Code>")
_NO_ANSWER = re.compile(
    r"error sending request|error decoding response body|operation timed out|connection (?:refused"
    r"|reset|closed)|dns error|request or response body error",
    re.IGNORECASE,
)
_SOURCE_LINE = re.compile(r"(?:, /[^\s,]+\.rs:\d+:\d+)+")
"""Where in Lance's own source an error arose: of no use to whoever reads the message."""

_DENIED_STATUSES = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_DENIED_CODES = ("expiredtoken", "invalidtoken", "authorizationheadermalformed")
"""What S3 answers to bad credentials with status 400."""

_DENIED_WORDS = (
    "permission denied",
    "permissiondenied",
    "access denied",
    "accessdenied",
    "no providers in chain provided credentials",
)
_MISSING_WORDS = ("not found", "no such file", "does not exist")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCall:
    """One call to a foreign part: what is done, to what."""

    operation: str
    target: str


class CallObserver(Protocol):
    """Sees every foreign call; raising stands for a failure of the part."""

    def before(self, call: StoreCall) -> None:
        """The call is about to be made; raising means that it had no effect."""
        ...

    def after(self, call: StoreCall) -> None:
        """The call returned; raising means that its acknowledgement was lost."""
        ...


class StoreCalls:
    """Makes foreign calls under their names, and translates what they raise."""

    __slots__ = ("_observer", "_root")

    def __init__(self, observer: CallObserver | None = None, *, root: str = "") -> None:
        self._observer = observer
        self._root = root

    @contextmanager
    def making(self, operation: str, target: str) -> Iterator[None]:
        """Run the block as one foreign call.

        Raises:
            StorageSignal: the object exists, is missing, or a commit was refused.
            StorageDenied: the credentials do not allow the call.
            StorageUnavailable: the store or the disk failed; the outcome is unknown.
            InvalidArgument: the bucket does not exist.
            StorageInternalError: anything else, a native panic included.
        """
        call = StoreCall(operation=operation, target=target)
        try:
            if self._observer is not None:
                self._observer.before(call)
            yield
            if self._observer is not None:
                self._observer.after(call)
        except (OmnigraphError, StorageSignal):
            raise
        except Exception as error:
            raise translate(error, call, self._root) from error
        except BaseException as error:
            if type(error).__name__ == "PanicException":
                raise _internal(error, call) from error
            raise


def translate(error: Exception, call: StoreCall, root: str = "") -> Exception:
    """The typed error or signal that stands for a foreign exception."""
    if "NoSuchBucket" in str(error):
        return _no_bucket(call, root)
    message = f"{call.operation} of {call.target}: {_reason(error)}"
    match error:
        case CommitConflictError():
            return CommitRefused(message, is_final=not error.retryable)
        case store_errors.AlreadyExistsError():
            return AlreadyExists(message)
        case FileNotFoundError() | store_errors.NotFoundError():
            return ObjectMissing(message)
        case PermissionError() | store_errors.PermissionDeniedError():
            return _denied(message, call)
        case store_errors.UnauthenticatedError():
            return _denied(message, call)
        case OSError() | store_errors.BaseError() | FailpointHit() | ValueError() | RuntimeError():
            # Lance raises plain OSError, ValueError and RuntimeError for everything else, so only
            # the text tells a missing version and refused credentials from a store that is down.
            return _by_text(error, message, call)
        case _:
            return _internal(error, call)


def _by_text(error: Exception, message: str, call: StoreCall) -> Exception:
    text = str(error).lower()
    status = _STATUS.search(text)
    if status is not None:
        return _by_status(int(status["status"]), text, message, call)
    if _NO_ANSWER.search(text):
        return _unavailable(message, call)
    if any(word in text for word in _DENIED_WORDS):
        return _denied(message, call)
    if any(word in text for word in _MISSING_WORDS):
        return ObjectMissing(message)
    if isinstance(error, ValueError | RuntimeError):
        return _internal(error, call)
    return _unavailable(message, call)


def _by_status(status: int, text: str, message: str, call: StoreCall) -> Exception:
    """What an answer of an object store means that its client had no class for."""
    if status in _DENIED_STATUSES or any(code in text for code in _DENIED_CODES):
        return _denied(message, call)
    if status == HTTPStatus.NOT_FOUND:
        return ObjectMissing(message)
    return _unavailable(message, call)


def _no_bucket(call: StoreCall, root: str) -> InvalidArgument:
    bucket = root.removeprefix("s3://").partition("/")[0]
    return InvalidArgument(
        f"the bucket {bucket!r} does not exist; create it, or check the address and the endpoint",
        bucket=bucket,
        operation=call.operation,
    )


def _unavailable(message: str, call: StoreCall) -> StorageUnavailable:
    return StorageUnavailable(
        f"the store did not complete {message}; try again, and check that it can be reached",
        operation=call.operation,
        target=call.target,
    )


def _denied(message: str, call: StoreCall) -> StorageDenied:
    return StorageDenied(
        f"the store refuses {message}; check the credentials and rights on this location, or open"
        " the graph read-only",
        operation=call.operation,
        target=call.target,
    )


def _internal(error: BaseException, call: StoreCall) -> StorageInternalError:
    return StorageInternalError(
        f"{call.operation} of {call.target} failed inside the storage engine: {_reason(error)}",
        operation=call.operation,
        target=call.target,
    )


def _reason(error: BaseException) -> str:
    """Why, in one line: what a server said without its address, which may name an account."""
    text = str(error)
    status = _STATUS.search(text)
    if status is not None:
        code = _CODE.search(text, status.end())
        return f"{status['status']} {code['code'] if code else 'without a reason'}"
    no_answer = _NO_ANSWER.search(text)
    if no_answer is not None:
        return f"no answer ({no_answer[0].lower()})"
    lines = text.strip().splitlines()
    return _SOURCE_LINE.sub("", lines[0]) if lines else type(error).__name__
