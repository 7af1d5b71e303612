"""Secrets that tests plant in every server, and the search for them in whatever it lets out.

A server of a test has the tokens of its actors, keys of providers and a password of a database in
its settings or its environment. None of them may be in a response, a log line, a metric, a line of
the audit log or the arguments of a process: the server of a test is searched while it runs, and the
test that leaked fails at the end of its block.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnigraph.server.logs import EventFormatter, JsonFormatter
from omnigraph.settings import Secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from omnigraph.settings import Settings

PLANTED: Final = {
    "OPENAI_API_KEY": "canary-of-openai-5e1d",
    "OPENROUTER_API_KEY": "canary-of-openrouter-77c2",
    "GEMINI_API_KEY": "canary-of-gemini-90ab",
    "AWS_SECRET_ACCESS_KEY": "canary-of-aws-31f8",
    "AWS_ACCESS_KEY_ID": "canary-of-an-id-4410",
    "OMNIGRAPH_BEARER_TOKEN": "canary-of-a-client-c0de",
    "JDBC_PASSWORD": "canary-of-jdbc-2b9e",
}
"""By the variable that holds each."""


class Canaries:
    """The secrets of one server, and where they were seen."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = [secret.encode() for secret in secrets]
        self._longest = max(map(len, self._secrets), default=1)
        self.seen: list[str] = []

    def search(self, where: str, content: str | bytes) -> None:
        """Note where a secret stands in the open."""
        data = content.encode(errors="replace") if isinstance(content, str) else content
        if any(secret in data for secret in self._secrets):
            self.seen.append(where)

    def require_none(self) -> None:
        """Fail if one was seen; where is told, the secret is not."""
        assert not self.seen, f"a planted secret was seen in {', '.join(self.seen)}"

    def watching(self, app: ASGIApp) -> ASGIApp:
        """The application, with every answer searched, also across the chunks of a stream."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            rest = b""

            async def searched(message: Message) -> None:
                nonlocal rest
                if message["type"] == "http.response.start":
                    self.search("the headers of a response", repr(message["headers"]))
                else:
                    rest += message.get("body", b"")
                    self.search(f"the response of {scope['path']}", rest)
                    rest = rest[-self._longest :]
                await send(message)

            await app(scope, receive, searched)

        return watched

    @contextlib.contextmanager
    def hearing_logs(self) -> Iterator[None]:
        """Search every line that a server would log in this process, in both forms."""
        handler = _Ear(self)
        root = logging.getLogger()
        level = root.level
        root.addHandler(handler)
        # As a server has it without a setting: requests and decisions of policies are told at INFO.
        root.setLevel(logging.INFO)
        try:
            yield
        finally:
            root.setLevel(level)
            root.removeHandler(handler)

    def search_arguments(self, pid: int) -> None:
        """Search what `ps` shows of a process and of those that it started."""
        for each in (pid, *children_of(pid)):
            self.search("the arguments of a process", arguments_of(each))


class _Ear(logging.Handler):
    def __init__(self, canaries: Canaries) -> None:
        super().__init__()
        self._canaries = canaries
        self._forms = (JsonFormatter(), EventFormatter("%(levelname)s %(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        for form in self._forms:
            self._canaries.search(f"a log line of {record.name}", form.format(record))


def secrets_of(environ: Mapping[str, str]) -> list[str]:
    """What variables hold that no output of a program may show."""
    return [
        value
        for name, value in environ.items()
        if value.strip()
        and (name.endswith(("_KEY", "_TOKEN", "_PASSWORD")) or name.startswith("OMNIGRAPH_TOKEN_"))
    ]


def children_of(pid: int) -> list[int]:
    """The processes that a process started."""
    with contextlib.suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def arguments_of(pid: int) -> bytes:
    """What a process was started with; nothing if it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def planted(settings: Settings) -> Settings:
    """Settings with secrets that no request of a test needs; a key of a provider would be used."""
    client = replace(
        settings.client,
        bearer_token=settings.client.bearer_token or Secret(PLANTED["OMNIGRAPH_BEARER_TOKEN"]),
    )
    storage = replace(
        settings.storage,
        aws_secret_access_key=settings.storage.aws_secret_access_key
        or Secret(PLANTED["AWS_SECRET_ACCESS_KEY"]),
    )
    return replace(settings, client=client, storage=storage)
