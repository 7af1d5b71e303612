"""Arrow starts without pandas, which it asks for at its first array and a command seldom needs.

Importing pandas takes longer than most commands do. Arrow looks for it once and remembers the
answer, so it is told once that there is none; and told the truth as soon as anything imports
pandas, because an Arrow that knows no pandas reads the missing values of a series as numbers.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_PANDAS = "pandas"


def start_arrow() -> None:
    """Import Arrow, and leave pandas to whoever imports it first.

    Nothing happens where Arrow or pandas is imported already.
    """
    if _PANDAS in sys.modules or "pyarrow" in sys.modules:
        return
    finder = _PandasFinder()
    sys.meta_path.insert(0, finder)
    import pyarrow as pa

    pa.array([0])  # the first values ask for pandas
    finder.hides = False


class _PandasFinder:
    """Finds no pandas while it hides it; afterwards the one that is installed, and tells Arrow."""

    def __init__(self) -> None:
        self.hides = True

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As the import system asks every finder."""
        if name != _PANDAS:
            return None
        if self.hides:
            raise ModuleNotFoundError("pandas is imported when it is needed", name=name)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _TellingLoader(spec.loader)
        return spec


class _TellingLoader(Loader):
    """Loads pandas as its own loader does, and has Arrow look for it anew."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As the loader does; then Arrow, which must need pandas for this, finds it."""
        import pyarrow as pa

        self._loader.exec_module(module)
        pa.nulls(0).to_pandas()
