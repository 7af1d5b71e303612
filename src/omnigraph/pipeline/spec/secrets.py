"""The values of a `pipeline.yaml`: variables of the environment, secrets, durations, types.

A secret never stands in the file: an option that is named like one, and an address that carries
one, must take it from a variable. Nothing here shows the value of either.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_REFERENCE: Final = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<broken>\{))")
_ANY_VARIABLE: Final = "\0"
_HIDDEN: Final = "***"
_HIDDEN_FROM: Final = 4
"""Characters of a value that errors do not show; to leave out shorter ones would spoil texts."""
_SECRET_OPTION: Final = re.compile(
    r"pass(?:word|wd|phrase|code)|secret|credential"
    r"|(?:token|pwd|signature|(?:access|account|api|auth|encryption|private|sas|shared|storage)key)s?$"
    r"|^key$"
)
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]")
_URL_PASSWORD: Final = re.compile(
    r"(?:://[^/\s@:]*:|^jdbc:oracle:\w+:[^/\s@:]+/)(?P<value>[^/\s@]+)@"
)
_URL_PARAMETER: Final = re.compile(
    r"[?&;:](?P<name>[\w.-]+)\s*=(?P<value>[^&;\s]+)",
)
_DURATION: Final = re.compile(r"(?P<number>[0-9]{1,9})(?P<unit>ms|s|m|h|d)")
_UNITS_US: Final = {
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
DAY_US: Final = _UNITS_US["d"]
_COLUMN_TYPE: Final = re.compile(
    r"boolean|tinyint|byte|smallint|short|int|integer|bigint|long|float|real|double|string|binary"
    r"|date|timestamp|timestamp_ntz|decimal(?:\(\s*[0-9]{1,2}\s*(?:,\s*[0-9]{1,2}\s*)?\))?"
)


def has_reference(text: str) -> bool:
    """Whether a variable is named in the text."""
    return any(match["name"] for match in _REFERENCE.finditer(text))


def missing_variables(text: str, environ: Mapping[str, str]) -> Iterator[str]:
    """What keeps the variables of a text from being filled in, as messages."""
    for match in _REFERENCE.finditer(text):
        if match["broken"]:
            yield "${ begins a variable, as in ${NAME}; write $${ for the characters themselves"
        elif match["name"] and match["name"] not in environ:
            yield f"the variable {match['name']} is not set in the environment"


def fill_in(text: str, environ: Mapping[str, str]) -> str:
    """The text with its variables filled in, and `$$` as one `$`."""
    return _REFERENCE.sub(lambda match: environ[match["name"]] if match["name"] else "$", text)


def filled_values(text: str, environ: Mapping[str, str]) -> Iterator[str]:
    """The values of the variables of a text, but for those that are too short to hide anything."""
    for match in _REFERENCE.finditer(text):
        value = environ.get(match["name"] or "", "")
        if len(value) >= _HIDDEN_FROM:
            yield value


def hide(text: str, values: Iterable[str]) -> str:
    """The text without any of the values."""
    for value in sorted(values, key=len, reverse=True):
        if value:
            text = text.replace(value, _HIDDEN)
    return text


def without_secrets(text: str, environ: Mapping[str, str]) -> str:
    """The text with its variables filled in, but for the secrets of an address."""
    if any(missing_variables(text, environ)):
        return text
    filled = fill_in(text, environ)
    for secret in url_secrets(filled):
        filled = filled.replace(secret, "")
    return filled


def is_secret_option(name: str) -> bool:
    """Whether an option with this name holds a password, a token or a key."""
    return _SECRET_OPTION.search(_NOT_IN_NAMES.sub("", name.lower())) is not None


def url_secrets(text: str) -> list[str]:
    """The passwords, tokens and keys that an address carries."""
    if not _is_address(text):
        return []
    passwords = [match["value"] for match in _URL_PASSWORD.finditer(text)]
    return passwords + [
        match["value"] for match in _URL_PARAMETER.finditer(text) if is_secret_option(match["name"])
    ]


def _is_address(text: str) -> bool:
    return "://" in text or text.startswith("jdbc:")


def holds_url_secret(text: str) -> bool:
    """Whether an address in the text carries a password, token or key that is no variable."""
    marked = _REFERENCE.sub(lambda match: _ANY_VARIABLE if match["name"] else "$", text)
    passwords = [match["value"] for match in _URL_PASSWORD.finditer(marked)]
    if _is_address(marked):
        passwords += [
            match["value"]
            for match in _URL_PARAMETER.finditer(marked)
            if is_secret_option(match["name"])
        ]
    return any(_ANY_VARIABLE not in password for password in passwords)


def parse_duration_us(text: str) -> int:
    """Microseconds of `500ms`, `30s`, `10m`, `2h` or `7d`.

    Raises:
        ValueError: it is none of these.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("expected a duration such as 500ms, 30s, 10m, 2h or 7d")
    return int(match["number"]) * _UNITS_US[match["unit"]]


def is_column_type(text: str) -> bool:
    """Whether this is a type that a CSV column may be declared with."""
    return _COLUMN_TYPE.fullmatch(text.strip().lower()) is not None
