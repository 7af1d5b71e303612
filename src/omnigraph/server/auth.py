"""Bearer tokens: read once at startup, kept as SHA-256 digests, compared without a shortcut.

No object that outlives startup holds a token in plain text. The actor of a request follows from its
token and from nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from omnigraph.errors import SettingInvalid, Unauthenticated
from omnigraph.ids import RESERVED_ACTOR

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from omnigraph.settings import ServerSettings

TOKEN_VARIABLES: Final = (
    "OMNIGRAPH_SERVER_BEARER_TOKEN",
    "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE",
    "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON",
    "OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET",
)
SINGLE_ACTOR: Final = "default"
_SCHEME: Final = "bearer"
_ARN_REGION: Final = re.compile("arn:[^:]+:secretsmanager:([^:]+):")
_NO_REGION: Final = "NoRegionError"


@dataclass(frozen=True, slots=True)
class BearerTokens:
    """Who has which token, as digests."""

    digests: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    source: str = "none"
    """The variables that they came from."""
    warnings: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.digests)

    def actor_of(self, authorization: str | None) -> str:
        """The actor of a request.

        Raises:
            Unauthenticated: no token, or none that is known.
        """
        scheme, _, token = (authorization or "").strip().partition(" ")
        token = token.strip()
        if scheme.lower() != _SCHEME or not token:
            raise Unauthenticated("missing bearer token")
        presented = _digest(token)
        found: str | None = None
        for actor, digest in self.digests:
            # Every digest is compared, so that the time tells nothing about which one fits.
            if hmac.compare_digest(presented, digest):
                found = actor
        if found is None:
            raise Unauthenticated("invalid bearer token")
        return found


def read_tokens(settings: ServerSettings, *, region: str | None = None) -> BearerTokens:
    """The tokens that the settings name.

    Args:
        settings: where they are.
        region: of AWS, for a secret that is named without one.

    Raises:
        SettingInvalid: a source cannot be used; no token is shown.
    """
    if settings.bearer_tokens_aws_secret is not None:
        variable = "OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET"
        text = _aws_secret(settings.bearer_tokens_aws_secret, region)
        return BearerTokens(_digests(_actors(text, variable), variable), variable)
    pairs: list[tuple[str, str]] = []
    sources: list[str] = []
    warnings: tuple[str, ...] = ()
    if settings.bearer_tokens_file is not None:
        sources.append("OMNIGRAPH_SERVER_BEARER_TOKENS_FILE")
        pairs += _actors(_file_text(settings.bearer_tokens_file), sources[-1])
        if settings.bearer_tokens_json is not None:
            warnings = (
                "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON is ignored, because"
                " OMNIGRAPH_SERVER_BEARER_TOKENS_FILE is set",
            )
    elif settings.bearer_tokens_json is not None:
        sources.append("OMNIGRAPH_SERVER_BEARER_TOKENS_JSON")
        pairs += _actors(settings.bearer_tokens_json.reveal(), sources[-1])
    if settings.bearer_token is not None:
        sources.append("OMNIGRAPH_SERVER_BEARER_TOKEN")
        pairs.append((SINGLE_ACTOR, settings.bearer_token.reveal().strip()))
    if not sources:
        return BearerTokens()
    return BearerTokens(_digests(pairs, sources[-1]), ", ".join(sources), warnings)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _digests(pairs: Iterable[tuple[str, str]], variable: str) -> tuple[tuple[str, bytes], ...]:
    actors: dict[str, bytes] = {}
    for actor, token in pairs:
        if not actor or not token:
            raise _refused(variable, "an actor or a token is blank")
        if actor.startswith(RESERVED_ACTOR):
            raise _refused(variable, f"{actor!r} cannot be an actor: the system keeps the prefix")
        if actor in actors:
            raise _refused(variable, f"the actor {actor!r} is there twice")
        digest = _digest(token)
        if digest in actors.values():
            raise _refused(variable, f"the token of {actor!r} is that of another actor, too")
        actors[actor] = digest
    return tuple(actors.items())


def _actors(text: str, variable: str) -> list[tuple[str, str]]:
    """The pairs of a JSON object; a repeated key stays repeated, so that it is found."""
    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs)
    except ValueError:
        # The parser's message may quote the text.
        raise _refused(variable, "it holds no JSON") from None
    if not isinstance(pairs, _Pairs) or not all(isinstance(token, str) for _, token in pairs):
        raise _refused(variable, 'it is no object of the form {"actor": "token"}')
    return [(actor.strip(), token.strip()) for actor, token in pairs]


class _Pairs(list[tuple[str, str]]):
    """What an object of JSON holds, in its order."""


def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise _refused(
            "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE", f"cannot read {path}: {why}"
        ) from None


def _aws_secret(name: str, region: str | None) -> str:
    """The text of a secret of AWS; the client for it is an optional part.

    An ARN names its region. Without any the client looks where it always does.
    """
    variable = "OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET"
    try:
        from importlib import import_module

        connect = import_module("boto3").client
    except ImportError:
        raise _refused(variable, "reading it needs an optional part: pip install boto3") from None
    found = _ARN_REGION.match(name)
    try:
        client = connect("secretsmanager", region_name=found[1] if found else region)
        answer: Mapping[str, object] = client.get_secret_value(SecretId=name)
    except Exception as error:  # noqa: BLE001 - the client has no public base of its errors
        kind = type(error).__name__
        advice = "; set AWS_REGION, or give the ARN of the secret" if kind == _NO_REGION else ""
        # The text of the error may quote the secret, and no chain may show it.
        raise _refused(variable, f"the secret cannot be read: {kind}{advice}") from None
    text = answer.get("SecretString")
    if not isinstance(text, str):
        raise _refused(variable, "the secret holds no text")
    return text


def _refused(variable: str, why: str) -> SettingInvalid:
    return SettingInvalid(f"{variable}: {why}", name=variable)
