"""Counts of one server process, as Prometheus reads them.

Labels never hold actors, branches, ids of entities or text of queries.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


class Series:
    """A counter or a gauge with labels."""

    def __init__(self, name: str, kind: str, description: str, labels: tuple[str, ...]) -> None:
        self.name, self._kind, self._description = name, kind, description
        self._labels = labels
        self._values: dict[tuple[str, ...], float] = {}
        self._lock = threading.Lock()

    def add(self, *labels: str, amount: float = 1) -> None:
        """Count."""
        with self._lock:
            self._values[labels] = self._values.get(labels, 0) + amount

    def set(self, *labels: str, value: float) -> None:
        """State the value."""
        with self._lock:
            self._values[labels] = value

    def lines(self) -> Iterator[str]:
        """The series as text."""
        yield f"# HELP {self.name} {self._description}"
        yield f"# TYPE {self.name} {self._kind}"
        with self._lock:
            values = sorted(self._values.items())
        for labels, value in values:
            yield f"{self.name}{_labels(self._labels, labels)} {_number(value)}"


class Histogram:
    """Times in seconds, by one label."""

    def __init__(self, name: str, description: str, label: str) -> None:
        self._name, self._description, self._label = name, description, label
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        self._lock = threading.Lock()

    def observe(self, label: str, seconds: float) -> None:
        """Count one time."""
        place = bisect_left(_BUCKETS_S, seconds)
        with self._lock:
            counts = self._counts.setdefault(label, [0] * (len(_BUCKETS_S) + 1))
            counts[place] += 1
            self._sums[label] = self._sums.get(label, 0.0) + seconds

    def lines(self) -> Iterator[str]:
        """The histogram as text."""
        yield f"# HELP {self._name} {self._description}"
        yield f"# TYPE {self._name} histogram"
        with self._lock:
            taken = [(label, list(counts)) for label, counts in sorted(self._counts.items())]
            sums = dict(self._sums)
        for label, counts in taken:
            total = 0
            for bound, count in zip((*_BUCKETS_S, "+Inf"), counts, strict=True):
                total += count
                labels = _labels((self._label, "le"), (label, str(bound)))
                yield f"{self._name}_bucket{labels} {total}"
            one = _labels((self._label,), (label,))
            yield f"{self._name}_sum{one} {_number(sums[label])}"
            yield f"{self._name}_count{one} {total}"


class Metrics:
    """Everything that is counted."""

    def __init__(self) -> None:
        counter, gauge = "counter", "gauge"
        self.requests = Series(
            "omnigraph_http_requests_total", counter, "Requests.", ("route", "method", "status")
        )
        self.seconds = Histogram(
            "omnigraph_http_request_seconds", "Time to answer a request.", "route"
        )
        self.inflight = Series("omnigraph_http_inflight", gauge, "Requests that run.", ("class",))
        self.admission_rejected = Series(
            "omnigraph_admission_rejected_total", counter, "Requests refused by 429.", ("reason",)
        )
        self.policy_decisions = Series(
            "omnigraph_policy_decisions_total",
            counter,
            "Answers of policies.",
            ("action", "allowed"),
        )
        self.query_rows = Series(
            "omnigraph_query_rows_total", counter, "Rows of queries.", ("graph",)
        )
        self.commits = Series(
            "omnigraph_commits_total", counter, "Commits of requests.", ("graph", "kind")
        )
        self.conflicts = Series(
            "omnigraph_commit_conflicts_total", counter, "Writes that lost.", ("graph", "kind")
        )
        self.recovery_pending = Series(
            "omnigraph_recovery_pending", gauge, "Writes that are not settled.", ("graph",)
        )
        self.export_streams = Series("omnigraph_export_streams", gauge, "Exports that run.", ())
        self.graphs = Series("omnigraph_graphs", gauge, "Graphs of this server.", ("state",))
        self.build_info = Series("omnigraph_build_info", gauge, "The release.", ("version",))
        for kind in ("read", "write", "stream"):
            self.inflight.set(kind, value=0)
        self.export_streams.set(value=0)

    def render(self) -> str:
        """All of it as text."""
        series = (
            *(self.requests, self.seconds, self.inflight, self.admission_rejected),
            *(self.policy_decisions, self.query_rows, self.commits, self.conflicts),
            *(self.recovery_pending, self.export_streams, self.graphs, self.build_info),
        )
        return "\n".join(line for one in series for line in one.lines()) + "\n"


_OF_EVERY_PROCESS: Final = (
    "omnigraph_graphs",
    "omnigraph_build_info",
    "omnigraph_recovery_pending",
)
"""Facts that each process tells about the same thing: they are not summed up."""


def merged(texts: Sequence[str]) -> str:
    """The texts of several processes as that of one server: counts are added."""
    heads: dict[str, list[str]] = {}
    values: dict[str, dict[str, float]] = {}
    for text in texts:
        for line in text.splitlines():
            if line.startswith("#"):
                lines = heads.setdefault(line.split(" ", 3)[2], [])
                lines += [line] if line not in lines else []
                continue
            key, _, number = line.rpartition(" ")
            family = _family(key, heads)
            before = values.setdefault(family, {}).get(key, 0.0)
            value = float(number)
            is_fact = family in _OF_EVERY_PROCESS
            values[family][key] = max(before, value) if is_fact else before + value
    return "".join(
        f"{line}\n"
        for family, head in heads.items()
        for line in (*head, *_value_lines(values.get(family, {})))
    )


def _family(key: str, heads: Mapping[str, object]) -> str:
    name = key.partition("{")[0]
    if name in heads:
        return name
    return name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")


def _value_lines(values: Mapping[str, float]) -> Iterator[str]:
    for key, value in values.items():
        yield f"{key} {_number(value)}"


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    pairs: Mapping[str, str] = dict(zip(names, values, strict=True))
    if not pairs:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
