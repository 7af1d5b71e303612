"""Runs the steps of a script on one executor, and writes what it got where that is wanted.

A script goes on after a query that answers wrongly, so that one run shows all of them; it ends at
the first write that goes wrong, because what follows rests on it. A write that is refused, or that
changed nothing, must leave its branch at the commit where it stood.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Self, cast

from tests.scripts.script_cases import actual_cases, cases_of, compare_cases
from tests.scripts.script_executors import Executor, LoadMode, Merged, OpenGraph, Receipt
from tests.scripts.script_format import DIVIDER, ScriptError, Step, read_script
from tests.scripts.script_loads import load_lines
from tests.scripts.script_outcomes import Outcome, Pair, actual_lines, compare, render_pairs
from tests.scripts.script_values import SpellingError, parse_value

from omnigraph.errors import OmnigraphError

_LOAD_MODES = ("append", "merge", "overwrite")


@dataclass(frozen=True, slots=True)
class Failure:
    """A step whose outcome is not the expected one."""

    step: Step
    pairs: Sequence[Pair]
    actual: Sequence[str]
    """What would stand in place of the expectation."""
    executor: str

    def render(self) -> str:
        """Where the step stands, its text, and expectation and outcome side by side."""
        bound = "".join(f", {name} = {value}" for name, value in self.step.bindings.items())
        text = "\n".join(f"    {line}" for line in self.step.filled().text.split("\n"))
        return (
            f"{self.step.place}: {self.step.kind} ({self.executor}{bound})\n{text}\n\n"
            f"{render_pairs(self.pairs)}"
        )


def run_script(
    path: Path, executor: Executor, folder: Path, *, goes_on: bool = False
) -> list[Failure]:
    """The steps of a file that fail; with `goes_on` also those after a wrong write.

    Raises:
        ScriptError: the file does not follow the format.
    """
    steps = read_script(path)
    failures: list[Failure] = []
    with _Run(executor, folder) as run:
        for step in steps:
            failure = run.play(step)
            if failure is None:
                continue
            failures.append(failure)
            if step.kind != "query" and not goes_on:
                break
    return failures


@dataclass(slots=True)
class _Run:
    """The graph that is open while the steps are played, and the commits that they named."""

    executor: Executor
    folder: Path
    commits: dict[str, str] = field(default_factory=dict)
    _graph: OpenGraph | None = None
    _opened: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def play(self, written: Step) -> Failure | None:
        """Run a step; what is wrong with its outcome, if anything is."""
        step = written.filled()
        try:
            if "cases" in step.options:
                outcomes = [
                    self._outcome(step, case.source, case.params)
                    for case in cases_of(step, _params(step))
                ]
                pairs, actual = compare_cases(step, outcomes), actual_cases(step, outcomes)
            else:
                outcome = self._write(step) if step.kind != "query" else self._outcome(step)
                pairs, actual = compare(step, outcome), actual_lines(step, outcome)
        except ScriptError:
            raise
        except SpellingError as error:
            raise step.error(str(error)) from error
        except Exception as error:
            error.add_note(f"at {step.place} ({self.executor.name})")
            raise
        if all(pair.is_same for pair in pairs):
            return None
        return Failure(written, pairs, actual, self.executor.name)

    def _outcome(
        self, step: Step, source: str | None = None, params: Mapping[str, object] | None = None
    ) -> Outcome:
        try:
            return self._done(
                step, source or step.text, _params(step) if params is None else params
            )
        except OmnigraphError as error:
            return error

    def _write(self, step: Step) -> Outcome:
        """The outcome of a step that may write; nothing moves where nothing was written."""
        if step.kind not in ("load", "mutation", "merge"):
            return self._outcome(step)
        before = self._head_of(step)
        outcome = self._outcome(step)
        is_still = isinstance(outcome, OmnigraphError) or (
            isinstance(outcome, Receipt | Merged) and not outcome.has_commit
        )
        if is_still and before != self._head_of(step):
            raise AssertionError(f"{step.place}: the branch moved, though nothing was written")
        return outcome

    def _head_of(self, step: Step) -> str | None:
        try:
            return self._on(step).head(step.branch)
        except OmnigraphError:
            return None  # The step is refused because there is no such branch.

    def _done(self, step: Step, source: str, params: Mapping[str, object]) -> Outcome:
        match step.kind:
            case "schema":
                self._open(step)
                return None
            case "query":
                return self._on(step).query(
                    source, params, branch=step.branch, commit=self._commit(step)
                )
            case "mutation":
                return self._on(step).mutate(source, params, branch=step.branch)
            case "merge":
                return self._on(step).merge(
                    step.words[0], step.branch, strategy=step.options.get("by", "fail")
                )
            case "load":
                mode = _one_of(step, _LOAD_MODES)
                lines = load_lines(step)
                self._on(step).load(
                    lines, mode=cast("LoadMode", mode), branch=step.branch
                )  # cast: checked
                return None
            case _:
                self._tend(step)
                return None

    def _tend(self, step: Step) -> None:
        """Branches, names of commits, and the upkeep of tables."""
        graph = self._on(step)
        match step.kind:
            case "branch" if _one_of(step, ("create", "delete")) == "create":
                graph.create_branch(step.words[1], step.options.get("from", "main"))
            case "branch":
                graph.delete_branch(step.words[1])
            case "commit":
                self.commits[step.words[0]] = graph.head(step.branch)
            case "indexes":
                graph.build_indexes(step.branch)
            case "compact":
                graph.compact(step.words[0], step.branch)
            case _:
                raise step.error(f"nothing is known about `{step.kind}`")

    def _open(self, step: Step) -> None:
        self._opened.close()
        self._graph = None
        self.commits.clear()
        settings = {name: str(value) for name, value in _params(step).items()}
        folder = Path(mkdtemp(dir=self.folder)) / "graph"
        opening = self.executor.open(folder, step.text, settings)
        self._graph = self._opened.enter_context(opening)

    def _on(self, step: Step) -> OpenGraph:
        if self._graph is None:
            raise step.error("there is no graph, because its schema was refused")
        return self._graph

    def _commit(self, step: Step) -> str | None:
        name = step.options.get("at")
        if name is not None and name not in self.commits:
            raise step.error(f"no commit is named `{name}`")
        return None if name is None else self.commits[name]


def _params(step: Step) -> dict[str, object]:
    return {name: parse_value(text) for name, text in step.given.items()}


def _one_of(step: Step, words: Sequence[str]) -> str:
    if step.words[0] not in words:
        raise step.error(f"`{step.kind}` is followed by {' or '.join(words)}")
    return step.words[0]


def rewrite(failures: Sequence[Failure]) -> int:
    """Write what was got in place of the expectations; how many steps were written.

    Raises:
        ScriptError: a loop got one thing for one value and another for the next.
    """
    found: dict[tuple[Path, int], Failure] = {}
    for failure in failures:
        place = (failure.step.path, failure.step.line)
        if place in found and found[place].actual != failure.actual:
            raise failure.step.error("the values of a loop lead to different outcomes")
        found[place] = failure
    for path in {path for path, _ in found}:
        lines = path.read_text(encoding="utf-8").split("\n")
        for (where, _), failure in sorted(found.items(), reverse=True):
            if where == path:
                step = failure.step
                block = lines[step.line - 1 : step.last]
                kept = block[: block.index(DIVIDER)] if DIVIDER in block else block
                told = [DIVIDER, *failure.actual] if failure.actual else []
                lines[step.line - 1 : step.last] = [*kept, *told]
        path.write_text("\n".join(lines), encoding="utf-8")
    return len(found)
