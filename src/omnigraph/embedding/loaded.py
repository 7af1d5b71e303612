"""The provider `module:attr`: an embedder from an installed package.

The way to run a local model in-process or on executors. The module is imported at the first use,
because such modules are heavy and most processes never embed. The attribute is an object that
satisfies `Embedder`; a class or a function that would make one is refused, since nobody could say
what to call it with.
"""

from __future__ import annotations

import threading
from importlib import import_module
from typing import TYPE_CHECKING, cast

from omnigraph.embedding.checked import describe_fault
from omnigraph.embedding.embedder import is_mock, require_model
from omnigraph.errors import EmbeddingUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from omnigraph.embedding.embedder import Embedder, Purpose


class LoadedEmbedder:
    """The object that `module:attr` names, found when it is first needed."""

    __slots__ = ("_embedder", "_lock", "_name", "_wanted_model")

    def __init__(self, name: str, *, wanted_model: str | None) -> None:
        self._name = name
        self._wanted_model = wanted_model
        self._lock = threading.Lock()
        self._embedder: Embedder | None = None

    @property
    def model(self) -> str:
        """The model of the object; loads it."""
        return self._load().model

    @property
    def is_mock(self) -> bool:
        """Whether the object is a mock; loads it."""
        return is_mock(self._load())

    def embed(
        self, texts: Sequence[str], *, dimension: int, purpose: Purpose
    ) -> npt.NDArray[np.float32]:
        """What the object returns."""
        return self._load().embed(texts, dimension=dimension, purpose=purpose)

    def _load(self) -> Embedder:
        with self._lock:
            if self._embedder is None:
                embedder = _find(self._name)
                require_model(embedder, self._wanted_model, "OMNIGRAPH_EMBED_MODEL")
                self._embedder = embedder
            return self._embedder


def _find(name: str) -> Embedder:
    module_name, _, path = name.partition(":")
    try:
        member: object = import_module(module_name)
    except ModuleNotFoundError as error:
        raise _unavailable(
            name, f"there is no module {error.name!r}; install the package that holds it"
        ) from error
    except Exception as error:  # Importing a module runs it, and it may raise anything.
        raise _unavailable(
            name, f"importing {module_name!r} raised {type(error).__name__}"
        ) from error
    for part in path.split("."):
        try:
            member = getattr(member, part)
        except AttributeError as error:
            raise _unavailable(name, f"there is no {part!r}; name an object of it") from error
    fault = describe_fault(member)
    if fault:
        raise _unavailable(name, f"the object {fault}")
    return cast("Embedder", member)  # `describe_fault` has looked at its attributes


def _unavailable(name: str, fault: str) -> EmbeddingUnavailable:
    return EmbeddingUnavailable(
        f"OMNIGRAPH_EMBED_PROVIDER {name!r} cannot be used: {fault}", provider=name, status=None
    )
