"""Tokens of servers: which one belongs to an address, and the file that keeps them.

A token that is kept under a name goes to the server of that name and to no other. The file is the
operator's alone: one that others can read is refused.
"""

from __future__ import annotations

import configparser
import os
import stat
from typing import TYPE_CHECKING, Final

import msgspec

from omnigraph.errors import SettingInvalid
from omnigraph.settings import TOKEN_PREFIX, Secret, load_process_settings, token_variable
from omnigraph.settings.server_address import parse_server_address

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from omnigraph.settings import ClientSettings

FILE_NAME: Final = "credentials"
_OWNER_ONLY: Final = 0o600
_NO_SECTION: Final = "\n"
"""What no section can be called."""


def find_token(url: str, client: ClientSettings | None = None) -> Secret | None:
    """The token for an address, as the operator's settings and files have it.

    Raises:
        SettingInvalid: a variable or a file is malformed, or others can read the credentials.
    """
    client = client or load_process_settings().client
    return token_for(url, known_servers(client.home), client)


def token_for(
    url: str, servers: Mapping[str, str], client: ClientSettings, *, is_general: bool = True
) -> Secret | None:
    """The token of the server whose address is the longest beginning of this one.

    Without one that is kept under its name: the general token, if it may be sent there.

    Raises:
        SettingInvalid: the credentials are malformed, or others can read them.
    """
    name = name_of(url, servers)
    if name is not None:
        keyed = client.server_tokens.get(token_variable(name).removeprefix(TOKEN_PREFIX))
        keyed = keyed or read_credentials(client.home).get(name)
        if keyed is not None:
            return keyed
    return client.bearer_token if is_general else None


def name_of(url: str, servers: Mapping[str, str]) -> str | None:
    """The name of the server with the longest address that this one begins with.

    Raises:
        ValueError: one of them is no address.
    """
    wanted = parse_server_address(url)
    known = {name: parse_server_address(address) for name, address in servers.items()}
    matches = [
        (len(address.path), name) for name, address in known.items() if address.begins(wanted)
    ]
    return max(matches)[1] if matches else None


def known_servers(home: Path | None) -> Mapping[str, str]:
    """Name to address, as the operator config has them.

    Raises:
        SettingInvalid: the file is malformed.
    """
    if home is None:
        return {}
    path = home / "config.yaml"
    try:
        content = msgspec.yaml.decode(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid(path, f"cannot be read: {' '.join(str(error).split())}") from error
    servers = content.get("servers") if isinstance(content, dict) else None
    if servers is None:
        return {}
    try:
        found = {str(name): str(entry["url"]) for name, entry in servers.items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise _invalid(path, "servers: expected names, each with a url") from error
    for name, url in found.items():
        try:
            parse_server_address(url)
        except ValueError as error:
            raise _invalid(path, f"servers.{name}.url: {error}") from error
    return found


def read_credentials(home: Path | None) -> dict[str, Secret]:
    """Name to token; none without a file.

    Raises:
        SettingInvalid: the file is malformed, or group or others can read it.
    """
    if home is None:
        return {}
    path = home / FILE_NAME
    try:
        with path.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise _invalid(path, f"others can read it; run: chmod 600 {path}")
            text = file.read()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise _invalid(path, f"cannot be read ({type(error).__name__})") from error
    return _parse(path, text)


def _parse(path: Path, text: str) -> dict[str, Secret]:
    # A section called DEFAULT would otherwise lend its token to the others.
    parser = configparser.RawConfigParser(
        delimiters=("=",), strict=True, default_section=_NO_SECTION
    )
    try:
        parser.read_string(text)
    except configparser.Error as error:
        # The text of the error may hold a line of the file.
        raise _invalid(path, f"is malformed ({type(error).__name__})") from None
    tokens = {}
    for name in parser.sections():
        token = parser.get(name, "token", fallback="").strip()
        if not token:
            raise _invalid(path, f"[{name}] has no token")
        tokens[name] = Secret(token)
    return tokens


def write_credentials(home: Path, tokens: Mapping[str, Secret]) -> Path:
    """Replace the file, complete or not at all, readable by its owner alone.

    Raises:
        SettingInvalid: it cannot be written.
    """
    path = home / FILE_NAME
    part = path.with_name(f".{FILE_NAME}.{os.getpid()}.part")
    lines = [f"[{name}]\ntoken = {token.reveal()}\n" for name, token in sorted(tokens.items())]
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise _invalid(path, f"cannot be written ({error.strerror})") from error
    return path


def _invalid(path: Path, what: str) -> SettingInvalid:
    return SettingInvalid(f"{str(path)!r}: {what}", name=str(path))
