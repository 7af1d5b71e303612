"""Which declaration of a new schema continues which of the old one, through `@rename_from`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.lang.catalog import EdgeType, NodeType, Property


@dataclass(frozen=True, slots=True, kw_only=True)
class Renames:
    """The match of old and new names."""

    pairs: tuple[tuple[str, str], ...]
    """Old and new name of everything that goes on, renamed or not."""
    added: tuple[str, ...]
    dropped: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]
    """New name and why its `@rename_from` cannot be followed."""
    _current: Mapping[str, str] = field(repr=False)

    @property
    def renamed(self) -> tuple[tuple[str, str], ...]:
        """Old and new name where they differ."""
        return tuple((old, new) for old, new in self.pairs if old != new)

    def current(self, old: str) -> str:
        """The new name of an old one; the old name itself when it is gone."""
        return self._current.get(old, old)


_Declared = Mapping[str, Property] | Mapping[str, NodeType] | Mapping[str, EdgeType]


def match_names(old: _Declared, new: _Declared) -> Renames:
    """Match declarations of one kind by name and by `@rename_from`.

    An annotation left in the source after its rename was applied asks for nothing: the name exists
    and either its source does not, or the accepted declaration carries the same annotation.
    """
    pairs: dict[str, str] = {}
    refused: list[tuple[str, str]] = []
    for name, item in new.items():
        source = _source(item)
        if name in old:
            pairs[name] = name
            is_new = _source(old[name]) != source
            if is_new and source in old and source != name:
                refused.append(
                    (name, f"cannot be renamed from `{source}`: `{name}` exists already")
                )
        elif source is not None:
            problem = _rename_problem(source, old, new, taken=pairs)
            if problem is None:
                pairs[source] = name
            else:
                refused.append((name, problem))
    handled = {*pairs.values(), *(name for name, _ in refused)}
    return Renames(
        pairs=tuple(pairs.items()),
        added=tuple(name for name in new if name not in handled),
        dropped=tuple(name for name in old if name not in pairs),
        refused=tuple(refused),
        _current=pairs,
    )


def _source(item: Property | NodeType | EdgeType) -> str | None:
    note = item.annotations.get("rename_from")
    return None if note is None else str(note.value)


def _rename_problem(
    source: str, old: _Declared, new: _Declared, *, taken: Mapping[str, str]
) -> str | None:
    if source not in old:
        return f"cannot be renamed from `{source}`: there is no `{source}`"
    if source in new:
        return f"cannot be renamed from `{source}`: `{source}` is still declared"
    if source in taken:
        return f"cannot be renamed from `{source}`: `{taken[source]}` is renamed from it already"
    return None
