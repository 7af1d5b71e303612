"""What an embedding job fills: a type, its `@embed` vectors, and the texts that they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from omnigraph.embedding import require_model
from omnigraph.errors import InternalError, InvalidArgument
from omnigraph.graph.manifest.table_refs import key_of, ref_of
from omnigraph.graph.type_names import find_type
from omnigraph.lang.catalog import NodeType
from omnigraph.lang.suggest import did_you_mean
from omnigraph.pipeline.embed.tasks import TextModel
from omnigraph.pipeline.spark.task_storage import TaskTable, open_task_storage, open_task_table
from omnigraph.pipeline.spec.pipeline_spec import list_digest
from omnigraph.storage.predicates import And, IsNull, Not, Or

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.embedding import Embedder
    from omnigraph.ids import BranchId
    from omnigraph.lang.catalog import Catalog
    from omnigraph.storage.predicates import Predicate


class EmbedMode(StrEnum):
    """Which rows get a vector."""

    MISSING = "missing"
    """Those that have a text and no vector."""
    ALL = "all"
    """All that have a text."""

    @classmethod
    def parse(cls, mode: str) -> EmbedMode:
        """The mode of that name.

        Raises:
            InvalidArgument: there is none.
        """
        try:
            return cls(mode)
        except ValueError as error:
            raise InvalidArgument(
                "mode is 'missing' (rows with a text and no vector) or 'all' (every row with a"
                f" text), not {mode!r}",
                argument="mode",
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedTarget:
    """One vector property that a job fills."""

    name: str
    source: str
    model: TextModel
    key: str
    """What all runs have in common that fill it with this model, on one branch."""

    def wanted(self, mode: EmbedMode) -> Predicate:
        """Which rows get a vector."""
        has_text = Not(IsNull(self.source))
        return has_text if mode is EmbedMode.ALL else And((IsNull(self.name), has_text))


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentTexts:
    """The texts of some fragments of a table, at one version."""

    root: str
    table: TaskTable
    type_name: str
    source: str
    predicate: Predicate
    fragments: tuple[int, ...]

    def texts(self) -> Iterator[tuple[str, str]]:
        """Each row that is wanted, and its text."""
        storage = open_task_storage(self.root)
        handle = open_task_table(storage, self.table)
        for batch in storage.tables.scan(
            handle,
            columns=["id", self.source],
            predicate=self.predicate,
            fragments=self.fragments,
        ):
            ids, texts = batch.column("id").to_pylist(), batch.column(self.source).to_pylist()
            for row_id, text in zip(ids, texts, strict=True):
                yield f"{self.type_name} {row_id!r}", str(text)


def any_wanted(targets: Iterable[EmbedTarget], mode: EmbedMode) -> Or:
    """Which rows get a vector of one of these properties."""
    return Or(tuple(each.wanted(mode) for each in targets))


def find_embedded(catalog: Catalog, name: str) -> NodeType:
    """The node type of that name, which has `@embed` vectors.

    Raises:
        InvalidArgument: there is no such type, or it has none.
    """
    item = find_type(catalog, name)
    if isinstance(item, NodeType) and item.embeds:
        return item
    holders = sorted(node.name for node in catalog.node_types.values() if node.embeds)
    known = f"types that have one: {', '.join(holders)}" if holders else "no type has one"
    raise InvalidArgument(f"{key_of(item)} has no `@embed` vector; {known}", type=item.name)


def find_targets(
    item: NodeType, only: str | None, embedder: Embedder, branch_id: BranchId
) -> tuple[EmbedTarget, ...]:
    """One `@embed` vector of a type, or all of them.

    Raises:
        InvalidArgument: the property is no `@embed` vector.
        EmbeddingModelMismatch: one belongs to another model than the embedder's.
    """
    if only is not None and only not in item.embeds:
        hint = did_you_mean(only, item.embeds, otherwise="it has")
        raise InvalidArgument(
            f"{item.name} has no `@embed` vector {only!r}{hint}", type=item.name, property=only
        )
    return tuple(
        _target(item, name, embedder, branch_id) for name in item.embeds if only in (None, name)
    )


def _target(item: NodeType, name: str, embedder: Embedder, branch_id: BranchId) -> EmbedTarget:
    embed, vector = item.embeds[name], item.properties[name]
    dimension = vector.type.vector_dim
    if dimension is None:
        raise InternalError(f"{item.name}.{name} is no vector")
    require_model(embedder, embed.model, f"{item.name}.{name}")
    named = (branch_id, str(ref_of(item)), str(vector.property_id), embedder.model, str(dimension))
    return EmbedTarget(
        name=name,
        source=embed.source,
        model=TextModel(name=embedder.model, dimension=dimension),
        key=list_digest(*named),
    )
