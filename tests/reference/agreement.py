"""What an engine answers beside what the reference says, and a report to see a case again."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pprint import pformat

import pyarrow as pa
from tests.reference.evaluator import ReferenceGraph, evaluate
from tests.reference.queries import GeneratedQuery

from omnigraph.lang import QueryIR, ir
from omnigraph.lang.arrow_schema import arrow_field

RELATIVE = 1e-12
"""How far sums of floats, and what is computed from vectors, may be apart."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""Any moment of our days: no graph has a date-time between 2012 and 9999."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A graph, a query, and what the answer must be."""

    graph: ReferenceGraph
    graph_seed: int
    query: GeneratedQuery
    compiled: QueryIR
    expected: Sequence[tuple[object, ...]]

    def difference(self, answer: pa.Table) -> str | None:
        """What is wrong with the answer, or None."""
        schema = pa.schema(
            [arrow_field(each.name, each.type) for each in self.compiled.result_schema]
        )
        if not answer.schema.equals(schema):
            return f"the schema is\n{answer.schema}\nand not\n{schema}"
        columns = [column.to_pylist() for column in answer.columns]
        got = list(zip(*columns, strict=True))
        if len(got) != len(self.expected):
            return f"{len(got)} rows and not {len(self.expected)}\ngot:\n{pformat(got)}"
        inexact = [_is_inexact(each.expr) for each in self.compiled.returns]
        for at, (found, wanted) in enumerate(zip(got, self.expected, strict=True)):
            if not all(map(_agree, found, wanted, inexact)):
                return f"row {at} is\n{found}\nand not\n{wanted}\ngot:\n{pformat(got)}"
        return None

    def report(self, mode: str, problem: str) -> str:
        """Everything that is needed to see the case again."""
        return "\n".join(
            (
                f"graph seed {self.graph_seed}, query seed {self.query.seed}, {mode}: {problem}",
                f"expected:\n{pformat(list(self.expected))}",
                f"schema:\n{self.graph.schema}",
                f"query:\n{self.query.text}",
                f"params: {self.query.params!r}",
                f"nodes:\n{pformat(self.graph.nodes, width=160)}",
                f"edges:\n{pformat(self.graph.edges, width=160)}",
            )
        )


def make_case(
    graph: ReferenceGraph, graph_seed: int, query: GeneratedQuery, compiled: QueryIR
) -> Case:
    """The case with the answer of the reference."""
    return Case(
        graph=graph,
        graph_seed=graph_seed,
        query=query,
        compiled=compiled,
        expected=evaluate(compiled, graph, {**query.params, "__now": NOW}),
    )


def _is_inexact(expr: ir.Expr) -> bool:
    match expr:
        case ir.Agg(func=ir.AggFunc.SUM | ir.AggFunc.AVG) | ir.Nearest() | ir.Rrf():
            return True
        case _:
            return False


def _agree(found: object, wanted: object, inexact: object) -> bool:
    if inexact and isinstance(found, float) and isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=RELATIVE, abs_tol=RELATIVE)
    return found == wanted
