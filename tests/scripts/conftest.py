"""Makes every script file a test for each executor; `--rewrite` updates what they expect."""

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

_ROOT = str(Path(__file__).parents[2])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

from tests.scripts.script_executors import (  # noqa: E402 - needs the path above
    EXECUTORS,
    Executor,
    OnSpark,
)
from tests.scripts.script_format import ScriptError, extended_executors  # noqa: E402 - as above
from tests.scripts.script_run import rewrite, run_script  # noqa: E402 - as above

_SHOWN = 10
"""How many failing steps of a file are told."""
_SPARK_TIMEOUT_S = 3_600


class ScriptFailed(AssertionError):
    """Steps of a script had other outcomes than expected."""


class ScriptFile(pytest.File):
    """A script, which is a test for each executor."""

    def collect(self) -> Iterator[pytest.Item]:
        playing = [executor for executor in EXECUTORS if executor.plays(self.path)]
        extended = extended_executors(self.path)
        unknown = extended - {executor.name for executor in playing}
        if unknown:
            raise self.CollectError(f"{self.path}: `extended` names {', '.join(sorted(unknown))}")
        for executor in playing:
            item = ScriptItem.from_parent(self, name=executor.name, executor=executor)
            if executor.name in extended or executor.is_extended(self.path):
                item.add_marker(pytest.mark.extended)
            if isinstance(executor, OnSpark):
                item.add_marker(pytest.mark.spark)
                item.add_marker(pytest.mark.xdist_group("spark"))
                item.add_marker(pytest.mark.timeout(_SPARK_TIMEOUT_S))
                if executor.is_slow(self.path):
                    item.add_marker(pytest.mark.slow)
            yield item


class ScriptItem(pytest.Item):
    """A script on one executor."""

    def __init__(self, *, executor: Executor, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]  # what the parent passes on
        self._executor = executor

    def runtest(self) -> None:
        """Run the steps; with `--rewrite` what is wrong is written instead of told."""
        is_rewriting = bool(self.config.getoption("--rewrite"))
        if is_rewriting and hasattr(self.config, "workerinput"):
            raise ScriptFailed("--rewrite needs -n 0: two workers would write one file")
        with TemporaryDirectory() as folder:
            failures = run_script(self.path, self._executor, Path(folder), goes_on=is_rewriting)
        if is_rewriting:
            rewrite(failures)
        elif failures:
            told = [failure.render() for failure in failures[:_SHOWN]]
            more = len(failures) - len(told)
            raise ScriptFailed("\n\n".join([*told, *([f"and {more} more"] if more else [])]))

    def repr_failure(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        style: object = None,  # noqa: ARG002 - a script has one style
    ) -> str:
        """The failing steps alone: where the runner stood tells nothing."""
        if isinstance(excinfo.value, ScriptFailed | ScriptError):
            return str(excinfo.value)
        return str(excinfo.getrepr(style="short"))

    def reportinfo(self) -> tuple[Path, None, str]:
        """What the heading of a failure says."""
        return self.path, None, f"{self.path.name} ({self.name})"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScriptFile | None:
    """Script files are those of this folder that end in `.test`."""
    if file_path.suffix != ".test":
        return None
    return ScriptFile.from_parent(parent, path=file_path)
