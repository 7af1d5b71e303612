"""Which addresses outside the graph a blob may hold, and whether they name something.

An address is allowed when it lies below one of the bases that the graph was opened with, by whole
segments of its path; none is by default. What could be read in two ways is refused, not cleaned:
steps upwards, however they are written, credentials, queries and fragments. So is a file that links
lead out of its base, when it is looked at. An address is probed and kept; its bytes are never read.
"""

from __future__ import annotations

import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, assert_never
from urllib.parse import unquote

from omnigraph.errors import (
    ExternalBlobDenied,
    ExternalBlobSource,
    InvalidArgument,
    OmnigraphError,
    StorageDenied,
)
from omnigraph.settings import StorageSettings, load_process_settings
from omnigraph.storage.external_objects import ExternalObjects
from omnigraph.storage.signals import LeadsOut, ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

PROBES_AT_ONCE: Final = 8

_SPELLING: Final = re.compile(r"(?P<scheme>[A-Za-z0-9+.-]+)://(?P<host>[^/]*)(?P<path>/.*)?")
_CREDENTIALS: Final = re.compile(r"//[^/]*@")
_LONGEST_SHOWN: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalAddress:
    """Where something outside the graph lies."""

    scheme: Literal["file", "s3"]
    host: str
    """The bucket; empty for a file."""
    segments: tuple[str, ...]
    """The path, decoded."""

    @property
    def path(self) -> str:
        """The path of a file, or the key of an object."""
        return ("/" if self.scheme == "file" else "") + "/".join(self.segments)

    def holds(self, other: ExternalAddress) -> bool:
        """Whether the other one is this or lies below it."""
        return (self.scheme, self.host) == (other.scheme, other.host) and (
            self.segments == other.segments[: len(self.segments)]
        )


class _NoAddress(Exception):
    """Why a text is no address that can be judged."""


def _elsewhere(bases: tuple[ExternalAddress, ...]) -> ExternalBlobs:
    return ExternalBlobs(bases, ExternalObjects(load_process_settings().storage))


@dataclass(frozen=True, slots=True)
class ExternalBlobs:
    """The addresses that one open graph allows."""

    bases: tuple[ExternalAddress, ...]
    objects: ExternalObjects

    def __reduce__(self) -> tuple[object, ...]:
        # Only the bases travel: another process looks with the credentials that it has.
        return _elsewhere, (self.bases,)

    def require(self, uri: str, *, type_name: str, name: str) -> None:
        """Refuse an address that the graph does not allow for a property of a type.

        Raises:
            ExternalBlobDenied: with the reason.
        """
        reason = self._why_denied(uri)
        if reason is not None:
            raise _denied(uri, reason, type=type_name, property=name)

    def _why_denied(self, uri: str) -> str | None:
        if not self.bases:
            return "the graph was opened without a base that it could lie below"
        try:
            address = _parsed(uri)
        except _NoAddress as error:
            return str(error)
        if not address.segments:
            return "it names a whole bucket"
        if self._base_of(address) is None:
            return "it lies outside the allowed bases of the graph"
        return None

    def _base_of(self, address: ExternalAddress) -> ExternalAddress | None:
        return next((base for base in self.bases if base.holds(address)), None)

    def probe(self, uris: Sequence[str]) -> None:
        """Make sure that each address, all of them allowed, names something that can be seen.

        Raises:
            ExternalBlobSource: the first that does not.
            ExternalBlobDenied: links lead out of the base of one.
        """
        for uri, reason in self.unseen(uris).items():
            raise _unseen(uri, reason)

    def unseen(self, uris: Sequence[str]) -> dict[str, str]:
        """Which of these addresses, all of them allowed, name nothing that can be seen, and why.

        Raises:
            ExternalBlobSource: a store does not answer, which says nothing about the address.
            ExternalBlobDenied: links lead out of the base of one.
        """
        with ThreadPoolExecutor(min(PROBES_AT_ONCE, max(len(uris), 1))) as pool:
            reasons = dict(zip(uris, pool.map(self._why_unseen, uris), strict=True))
        return {uri: reason for uri, reason in reasons.items() if reason is not None}

    def _why_unseen(self, uri: str) -> str | None:
        try:
            self._look(_parsed(uri))
        except ObjectMissing:
            return "there is no such object"
        except LeadsOut as error:
            raise _denied(uri, "a link on its way leads out of its base") from error
        except StorageDenied:
            # So a store answers for what is not there, too, where nobody may list.
            return "the store refuses the credentials"
        except OmnigraphError as error:
            raise _unseen(uri, error.message) from error
        return None

    def _look(self, address: ExternalAddress) -> int:
        match address.scheme:
            case "file":
                base = self._base_of(address) or address
                return self.objects.file_size(address.path, inside=base.path)
            case "s3":
                return self.objects.object_size(address.host, address.path)
            case _:
                assert_never(address.scheme)


def allow_external_blobs(bases: Sequence[str], settings: StorageSettings) -> ExternalBlobs:
    """The addresses below these bases.

    Raises:
        InvalidArgument: a base is no address of a folder, a bucket, or a part of one; there is no
            such folder; or one base lies in another, so that nobody could say which one counts.
    """
    if isinstance(bases, str) or not all(isinstance(base, str) for base in bases):
        raise InvalidArgument(
            "external_blobs is a list of addresses, as in ['s3://assets/images']",
            argument="external_blobs",
        )
    objects = ExternalObjects(settings)
    addresses: list[ExternalAddress] = []
    taken: list[tuple[ExternalAddress, str]] = []
    for text in bases:
        try:
            base = _parsed(text.removesuffix("/"))
            # As it is given, too: below a base there may be a link to another one.
            places = {base, _real_place(base, objects)}
        except _NoAddress as error:
            raise _no_base(text, str(error)) from error
        except ObjectMissing as error:
            raise _no_base(
                text, "there is no such folder; create it before, or correct the address"
            ) from error
        for place, (other, other_text) in itertools.product(places, taken):
            if other.holds(place) or place.holds(other):
                raise _overlap(text, other_text)
        taken += [(place, text) for place in places]
        addresses.append(base)
    return ExternalBlobs(tuple(addresses), objects)


def _real_place(base: ExternalAddress, objects: ExternalObjects) -> ExternalAddress:
    """Where a base lies once links are followed; a bucket is not asked, it may not be allowed."""
    if base.scheme != "file":
        return base
    return replace(base, segments=objects.real_path(base.path).parts[1:])


def _no_base(base: str, reason: str) -> InvalidArgument:
    return InvalidArgument(
        f"{shown_address(base)} cannot be a base of external blobs: {reason}",
        argument="external_blobs",
        base=shown_address(base),
    )


def _overlap(base: str, other: str) -> InvalidArgument:
    first, second = sorted([shown_address(base), shown_address(other)], key=len)
    return InvalidArgument(
        f"the bases {first} and {second} of external blobs are one place, or one lies in the other;"
        " give only the one that holds all you mean",
        argument="external_blobs",
        base=shown_address(base),
        other=shown_address(other),
    )


DENY_ALL: Final = ExternalBlobs((), ExternalObjects(StorageSettings()))
"""What a graph allows that was opened without bases."""


def shown_address(uri: str) -> str:
    """An address as a message may show it: without credentials, and not longer than helps."""
    text = _CREDENTIALS.sub("//", uri).partition("?")[0]
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def _parsed(text: str) -> ExternalAddress:
    """The parts of an address.

    Raises:
        _NoAddress: it is none, or one that can be read in two ways.
    """
    if not text.isprintable() or text != text.strip():
        raise _NoAddress("an address has no blanks around it and no control characters")
    spelled = _SPELLING.fullmatch(text)
    if spelled is None:
        raise _NoAddress("it is no address like s3://bucket/key or file:///folder/file")
    scheme, host, path = spelled["scheme"].lower(), spelled["host"], spelled["path"] or ""
    if "@" in host:
        raise _NoAddress("an address holds no credentials")
    if "?" in text or "#" in text:
        raise _NoAddress("an address has no query and no fragment; write %3F or %23 for the sign")
    segments = tuple(_segment(segment) for segment in path.split("/")[1:])
    match scheme:
        case "file":
            if host not in ("", "localhost") or not segments:
                raise _NoAddress("the address of a file has three slashes and an absolute path")
            return ExternalAddress(scheme="file", host="", segments=segments)
        case "s3":
            if not host or "%" in host or ":" in host or "\\" in host:
                raise _NoAddress("an s3:// address names a bucket")
            return ExternalAddress(scheme="s3", host=host, segments=segments)
        case other:
            raise _NoAddress(f"{other}:// is not supported; an address is s3:// or file://")


def _segment(written: str) -> str:
    """One decoded part of a path; the clients that meet it later must not see another."""
    decoded = unquote(written, errors="surrogateescape")
    if decoded == "":
        raise _NoAddress("its path has an empty part")
    inner = decoded
    while (once := unquote(inner)) != inner:
        inner = once
    if inner in (".", "..") or "/" in inner or "\\" in inner or not decoded.isprintable():
        raise _NoAddress(f"its path has the part {written!r}")
    return decoded


def _denied(uri: str, reason: str, **place: str) -> ExternalBlobDenied:
    where = f"{place['type']}.{place['property']}: " if place else ""
    return ExternalBlobDenied(
        f"{where}the address {shown_address(uri)!r} is refused: {reason}; give one below a base of"
        " external_blobs, or `base64:` and the bytes",
        **place,
        uri=shown_address(uri),
        reason=reason,
    )


def _unseen(uri: str, reason: str) -> ExternalBlobSource:
    return ExternalBlobSource(
        f"{shown_address(uri)} could not be looked at: {reason}; check the address, then write"
        " again",
        uri=shown_address(uri),
        reason=reason,
    )
