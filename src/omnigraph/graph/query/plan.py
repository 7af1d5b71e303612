"""`Plan`: how a query runs, as JSON and as a tree of text."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.graph.query.target import QueryTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of one query on one snapshot; with measured rows and times if it was run."""

    query_name: str
    target: QueryTarget
    graph_commit_id: str
    executor: str
    ops: tuple[Mapping[str, Any], ...]
    search: tuple[Mapping[str, Any], ...]
    order: tuple[str, ...]
    limit: int | None
    warnings: tuple[str, ...]
    offset: int | None = None
    groups: Mapping[str, Any] = field(default_factory=dict)
    """Of a grouped query the keys, `by`, and the `aggregates`."""
    distinct: bool = False
    having: tuple[str, ...] = ()
    counts: tuple[Mapping[str, Any], ...] = ()
    """Blocks whose solutions are counted outside the match: for columns, groups or the order."""
    measured: Mapping[str, Any] = field(default_factory=dict)
    """Rows and time of the whole query, if it was run."""
    spark_plan: str | None = None
    """What Spark would do, of a plan for Spark."""

    def on_spark(self, spark_plan: str) -> Plan:
        """The plan of the same operators on Spark, which walks by joins."""
        return replace(
            self,
            executor="spark",
            ops=tuple(_joined(step) for step in self.ops),
            spark_plan=spark_plan,
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "query": self.query_name,
            "snapshot": {"branch": self.target.branch, "graph_commit_id": self.graph_commit_id},
            "executor": self.executor,
            "ops": [dict(step) for step in self.ops],
            **({"counts": [dict(block) for block in self.counts]} if self.counts else {}),
            "search": [dict(call) for call in self.search],
            **({"groups": dict(self.groups)} if self.groups else {}),
            **({"distinct": True} if self.distinct else {}),
            **({"having": list(self.having)} if self.having else {}),
            "order": list(self.order),
            "limit": self.limit,
            **({} if self.offset is None else {"offset": self.offset}),
            "warnings": list(self.warnings),
            **self.measured,
            **({} if self.spark_plan is None else {"spark_plan": self.spark_plan}),
        }

    def to_json(self) -> str:
        """The JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def __str__(self) -> str:
        """The steps in the order they run, what each one needs indented below it."""
        lines = [self._head()]
        lines.extend(f"  search {_call(call)}" for call in self.search)
        lines.extend(_tree(self.ops, "  "))
        lines.extend(_tree(self.counts, "  "))
        if self.groups:
            lines.append(f"  {_groups(self.groups)}")
        lines.extend(f"  having {condition}" for condition in self.having)
        lines.extend(f"  warning: {warning}" for warning in self.warnings)
        if self.spark_plan is not None:
            lines.extend(("", self.spark_plan.strip()))
        return "\n".join(lines)

    def _head(self) -> str:
        parts = [f"{self.query_name} on {self.executor}"]
        if self.distinct:
            parts.append("distinct")
        if self.order:
            parts.append(f"order {', '.join(self.order)}")
        if self.limit is not None:
            parts.append(f"limit {self.limit}")
        if self.offset is not None:
            parts.append(f"offset {self.offset}")
        if self.measured:
            parts.append(_measures(self.measured))
        if hot := self.measured.get("hot_columns"):
            parts.append(f"from memory {', '.join(hot)}")
        return "; ".join(parts)


def _joined(step: Mapping[str, Any]) -> Mapping[str, Any]:
    """A step, and those inside it, with walks by joins."""
    changed = {name: value for name, value in step.items() if name != "why"}
    if "mode" in changed:
        changed["mode"] = "join"
    if "inner" in changed:
        changed["inner"] = [_joined(inner) for inner in changed["inner"]]
    return changed


def _tree(ops: Sequence[Mapping[str, Any]], indent: str) -> Iterator[str]:
    for op in ops:
        yield f"{indent}{_step(op)}"
        yield from _tree(op.get("types", ()), f"{indent}  ")
        filters = [*op.get("edge_filters", ()), *op.get("filters", ())]
        for item in filters if "types" not in op else ():
            yield f"{indent}  filter {_filter(item)}"
        if "why" in op:
            why = ", ".join(f"{name} {value}" for name, value in op["why"].items())
            yield f"{indent}  {op['mode']}: {why}"
        yield from _tree(op.get("inner", ()), f"{indent}  ")


def _step(op: Mapping[str, Any]) -> str:
    match op["op"]:
        case "NodeScan":
            what = f"scan {op['type']} as {op['var']}"
        case "Expand":
            low, high = op["hops"]
            hops = "" if (low, high) == (1, 1) else f"{{{low},{high}}}"
            what = f"expand {op['from']} {op['edge']}{hops} {op['direction']} to {op['to']}"
        case "Where":
            what = f"where {op['filter']}"
        case "Optional":
            what = "optional"
        case "SemiJoin":
            what = "where exists"
        case "Count":
            return "count for each row"
        case _:
            what = "where not"
    if columns := op.get("columns"):
        what += f" reading {', '.join(columns)}"
    if "form" in op:
        what += f", {op['form']}"
    rows = op["est_rows"]
    estimate = f"about {rows:,} {'row' if rows == 1 else 'rows'}"
    return f"{what} ({_measures(op) if 'rows' in op else estimate})"


def _groups(groups: Mapping[str, Any]) -> str:
    by = f"group by {', '.join(groups['by'])}" if groups["by"] else "one group"
    return f"{by}: {', '.join(groups['aggregates'])}"


def _measures(op: Mapping[str, Any]) -> str:
    rows = op["rows"]
    return f"{rows:,} {'row' if rows == 1 else 'rows'}, {op['elapsed_ms']:.3f} ms"


def _filter(item: Mapping[str, Any]) -> str:
    if not item["pushed"]:
        return f"{item['text']} in memory"
    if "index" not in item:
        return f"{item['text']} pushed"
    return f"{item['text']} pushed, {item['index']} covers {item['coverage']:.0%}"


def _call(call: Mapping[str, Any]) -> str:
    details = ", ".join(
        f"{name} {value:.0%}" if name == "coverage" else f"{name} {value}"
        for name, value in call.items()
        if name not in ("kind", "property") and value is not None
    )
    return f"{call['kind']} {call['property']}: {details}"
