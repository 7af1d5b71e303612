"""The rows of a match as a Spark frame, and which of its columns holds what.

Columns have names that nobody else has: the same table joined twice, or a frame joined with what
was derived from it, is never ambiguous. What an entity is, is its id; what is read of it lies
beside.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.errors import InternalError
from omnigraph.lang import ir

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from omnigraph.pipeline.query.leaves import SearchCall

Content: TypeAlias = "tuple[str, str] | SearchCall | ir.CountOf | ir.Rrf"
"""What a column holds: a property of a variable (its id is `ID`), a call, a count."""

ID = ""
"""Stands for the id where a property is named."""

KIND = "#kind"
"""Stands for the name of the type, of variables that may be of several."""


@dataclass(slots=True)
class Names:
    """Names of columns, each given once."""

    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def fresh(self) -> str:
        """Another one."""
        return f"c{next(self._numbers)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchFrame:
    """The rows of a match."""

    frame: DataFrame
    columns: Mapping[Content, str]
    variables: frozenset[str] = frozenset()
    """Nodes and edges that are bound."""
    may_miss: frozenset[str] = frozenset()
    """Those of them that are null where an optional block has no solution."""

    def column(self, content: Content) -> Column:
        """The column that holds this."""
        name = self.columns.get(content)
        if name is None:
            raise InternalError(f"no column of the match holds {content}; please report this")
        return F.col(name)

    def id_of(self, var: str) -> Column:
        """The id of a variable."""
        return self.column((var, ID))

    def entity_of(self, var: str) -> list[Column]:
        """What tells the entities of a variable apart, in their order; its type, too, if needed."""
        kind = [self.column((var, KIND))] if (var, KIND) in self.columns else []
        return [self.id_of(var), *kind]

    def of_type(self, var: str, name: str) -> MatchFrame:
        """The rows whose variable, if it may be of several types, is of this one."""
        if (var, KIND) not in self.columns:
            return self
        return self.keep(self.column((var, KIND)) == F.lit(name))

    def keep(self, condition: Column) -> MatchFrame:
        """The rows for which the condition is true."""
        return replace(self, frame=self.frame.filter(condition))

    def only(self, variables: Iterable[str], names: Names) -> MatchFrame:
        """The distinct rows of some variables, in columns of other names."""
        wanted = set(variables)
        contents: dict[Content, str] = {
            content: names.fresh() for content in self.columns if is_about(content, wanted)
        }
        keys = self.identity(wanted)
        picked = self.frame.select(
            *(self.column(content).alias(name) for content, name in contents.items())
        )
        return MatchFrame(
            frame=picked.dropDuplicates([contents[key] for key in keys]) if keys else picked,
            columns=contents,
            variables=self.variables & wanted,
            may_miss=self.may_miss & wanted,
        )

    def identity(self, variables: Iterable[str]) -> list[Content]:
        """The contents that tell rows of these variables apart."""
        wanted = set(variables)
        return [
            content
            for content in self.columns
            if isinstance(content, tuple)
            and content[0] in wanted
            and (content[1] in (ID, KIND) or ir.is_walk_var(content[0]))
        ]

    def matches(self, other: MatchFrame, contents: Sequence[Content]) -> Column:
        """Whether rows of both have the same contents; null is the same as null."""
        parts = []
        for content in contents:
            ours, theirs = self.column(content), other.column(content)
            is_given = isinstance(content, tuple) and content[0] not in self.may_miss
            parts.append(ours == theirs if is_given else ours.eqNullSafe(theirs))
        return all_true(parts)


def is_about(content: Content, variables: Collection[str]) -> bool:
    """Whether a column tells something of one of these variables, and of nothing else."""
    match content:
        case (var, _):
            return var in variables
        case ir.CountOf() | ir.Rrf():
            return False
        case _:
            return content.var in variables


def all_true(conditions: Sequence[Column]) -> Column:
    """The conjunction."""
    if not conditions:
        return F.lit(True)  # noqa: FBT003 - a literal
    joined = conditions[0]
    for condition in conditions[1:]:
        joined = joined & condition
    return joined
