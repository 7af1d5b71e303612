"""What a graph behind a server has by its name alone: it needs the storage of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.client import calls

if TYPE_CHECKING:
    from typing import NoReturn


class StorageNames:
    """Names of an open graph that say what to use instead."""

    @property
    def maintenance(self) -> NoReturn:
        """Not served."""
        raise calls.not_served(
            "maintenance", "run `omnigraph optimize --store URI` and its like beside the storage"
        )

    def write(self, *_: object, **__: object) -> NoReturn:
        """Not served."""
        raise calls.not_served("write", "use mutate or load")

    def pipeline(self, *_: object, **__: object) -> NoReturn:
        """Not served."""
        raise calls.not_served("pipeline", "open the graph with access to storage")

    def warm(self, *_: object, **__: object) -> NoReturn:
        """Not served."""
        raise calls.not_served("warm", "start the server with `omnigraph serve --warm`")

    def system(self, name: str) -> NoReturn:
        """Not served."""
        raise calls.not_served(f"system({name!r})", "list commits")

    def as_actor(self, actor: str | None) -> NoReturn:
        """Not served."""
        raise calls.not_served(
            f"as_actor({actor!r})", "connect with the token of that actor: a server trusts no name"
        )
