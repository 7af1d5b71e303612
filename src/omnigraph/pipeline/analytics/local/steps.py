"""How an iteration says how far it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Tell: TypeAlias = Callable[[int, int], None]
"""Told the steps that are done, and the most that there may be."""
