"""What a server is started with, decided once: every process of it is opened from the same plan.

A plan holds digests of tokens, never a token, and travels to workers through a pipe.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from omnigraph.errors import SettingInvalid
from omnigraph.server.auth import BearerTokens, read_tokens
from omnigraph.server.runtime import ServerRuntime
from omnigraph.server.runtime_state import RuntimeState, classify

if TYPE_CHECKING:
    from omnigraph.server.boot import BootSource
    from omnigraph.settings import ServerSettings, Settings

log = logging.getLogger("omnigraph.server")

_ORIGIN: Final = re.compile(r"https?://[^/?#\s@]+")
_MEANING: Final = {
    RuntimeState.OPEN: "no tokens: anybody may do everything",
    RuntimeState.DEFAULT_DENY: "no policy: every write will be refused",
    RuntimeState.POLICY_ENABLED: "the policy decides",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeRequest:
    """What somebody asks a server to be."""

    source: BootSource
    settings: Settings
    workers: int = 1
    metrics_bind: str | None = None
    """Serve metrics there, without a token, and not on the main port."""
    maintains: bool = False
    """Do what is due on the graphs, in the background, unless the settings switch it off."""
    warms: bool = False
    """Have in memory what queries read, before the socket listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """What every process of a server opens."""

    source: BootSource
    settings: Settings
    tokens: BearerTokens
    state: RuntimeState
    maintains: bool
    warms: bool
    shows_metrics: bool

    def open(self) -> ServerRuntime:
        """Open the graphs, and everything that requests share.

        Raises:
            GraphNotFound, PolicyInvalid, QueryInvalid: something cannot be served.
            ClusterRefused: a graph cannot be served, and all are required.
        """
        served = self.source.open(self.settings, self.state)
        if self.settings.server.require_all_graphs:
            served.require_all()
        runtime = ServerRuntime.start(served, self.tokens, self.settings)
        runtime.shows_metrics = self.shows_metrics
        if self.warms:
            runtime.warm()
        if self.maintains:
            runtime.start_maintenance()
        return runtime

    def tell(self, address: str, workers: int) -> None:
        """Say in one line what is served, to whom, and under which policy."""
        for warning in self.tokens.warnings:
            log.warning(warning)
        log.log(
            logging.INFO if self.state is RuntimeState.POLICY_ENABLED else logging.WARNING,
            "serving",
            extra={
                **self.source.describe(),
                "state": f"{self.state.value} ({_MEANING[self.state]})",
                "tokens": f"{self.tokens.source} ({len(self.tokens.digests)} actors)",
                "bind": address,
                "workers": workers,
            },
        )


def plan_server(request: ServeRequest) -> ServerPlan:
    """Read the tokens and decide the state; nothing is opened.

    Raises:
        SettingInvalid: it may not start like this.
    """
    settings = request.settings
    tokens = read_tokens(settings.server, region=settings.storage.aws_region)
    state = classify(
        has_tokens=bool(tokens),
        has_policy=request.source.has_policy,
        allow_unauthenticated=settings.server.unauthenticated,
    )
    _require_origins(settings.server, state)
    # Nothing that lives on holds a token in plain text.
    server = replace(settings.server, bearer_token=None, bearer_tokens_json=None)
    client = replace(settings.client, bearer_token=None, server_tokens={})
    return ServerPlan(
        source=request.source,
        settings=replace(settings, server=server, client=client),
        tokens=tokens,
        state=state,
        maintains=request.maintains and settings.storage.auto_maintenance,
        warms=request.warms,
        shows_metrics=request.metrics_bind is None,
    )


def _require_origins(settings: ServerSettings, state: RuntimeState) -> None:
    for origin in settings.cors_origins:
        if origin == "*":
            if state is not RuntimeState.OPEN:
                raise SettingInvalid(
                    "OMNIGRAPH_CORS_ORIGINS: '*' lets every page use a reader's token; name the"
                    " origins, or serve without tokens",
                    name="OMNIGRAPH_CORS_ORIGINS",
                )
        elif not _ORIGIN.fullmatch(origin):
            raise SettingInvalid(
                f"OMNIGRAPH_CORS_ORIGINS: {origin!r} is no origin such as https://app.example.com",
                name="OMNIGRAPH_CORS_ORIGINS",
            )
