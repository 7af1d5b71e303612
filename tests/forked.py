"""Starts processes in milliseconds: a server imports the program once, never uses it, and forks.

Only a process that has not used Lance may fork, so the tests' own process cannot.
"""

from __future__ import annotations

import multiprocessing
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.context import ForkServerProcess

_CONTEXT = multiprocessing.get_context("forkserver")
# There is one server for all tests of a process, which imports this when it starts.
_CONTEXT.set_forkserver_preload(["tests.crash.child", "tests.race.workers", "tests.race.mutators"])


def start(run: Callable[..., None], *arguments: object) -> ForkServerProcess:
    """A process that runs a function of a module."""
    process = _CONTEXT.Process(target=run, args=arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        process.start()
    return process
