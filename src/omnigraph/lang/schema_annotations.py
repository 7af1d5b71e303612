"""Rules of the annotations: where each may stand and what value it takes (S020 to S023)."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from omnigraph.lang import schema_ast as ast
from omnigraph.lang.catalog import AnnotationValue, Default, Embed
from omnigraph.lang.diagnostics import Findings, join_names
from omnigraph.lang.schema_parser import NAME_CONSTRAINTS
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.types import PropType, Scalar
from omnigraph.lang.values import UnfitValue, describe_json, read_json


class Place(StrEnum):
    """What an annotation describes."""

    NODE = "a node type"
    EDGE = "an edge type"
    NODE_PROPERTY = "a node property"
    EDGE_PROPERTY = "an edge property"


_PROPERTY_PLACES = frozenset({Place.NODE_PROPERTY, Place.EDGE_PROPERTY})
_ALLOWED: dict[str, frozenset[Place]] = {
    "key": frozenset({Place.NODE_PROPERTY}),
    "unique": _PROPERTY_PLACES,
    "index": _PROPERTY_PLACES,
    "embed": frozenset({Place.NODE_PROPERTY}),
    "default": _PROPERTY_PLACES,
    "rename_from": frozenset(Place),
    "description": frozenset(Place),
    "instruction": frozenset({Place.NODE, Place.EDGE}),
    "card": frozenset(),
    "range": frozenset(),
    "check": frozenset(),
}
_TEXT_ANNOTATIONS = frozenset({"rename_from", "description", "instruction"})


def read_annotations(
    annotations: Iterable[ast.Annotation], place: Place, findings: Findings
) -> dict[str, AnnotationValue]:
    """The annotations of one target by name, without the constraint words; findings for misuse."""
    out: dict[str, AnnotationValue] = {}
    seen: set[str] = set()
    for item in annotations:
        if item.name in seen:
            findings.add(
                "S020", "annotation_repeated", f"`@{item.name}` is given twice", item.extent
            )
            continue
        seen.add(item.name)
        if not _may_stand(item, place, findings):
            continue
        if item.name in NAME_CONSTRAINTS:
            continue
        if item.name in _TEXT_ANNOTATIONS:
            _check_text(item, findings)
        elif item.name == "default" and (item.value is None or item.keywords):
            findings.add(
                "S020", "annotation_value", "`@default` takes exactly one literal", item.extent
            )
        out[item.name] = AnnotationValue(
            value=_plain(item.value), keywords=dict(item.keywords), is_quoted=item.is_quoted
        )
    return out


def _may_stand(item: ast.Annotation, place: Place, findings: Findings) -> bool:
    allowed = _ALLOWED.get(item.name)
    if allowed is None or place in allowed:
        return True
    if item.name == "key" and place is Place.EDGE_PROPERTY:
        findings.add(
            "S016",
            "constraint_on_edge",
            "`@key` is not allowed on edges; use `@unique`",
            item.extent,
        )
        return False
    if item.name in ("range", "check") and place in _PROPERTY_PLACES:
        findings.add(
            "S020",
            "annotation_value",
            f"`@{item.name}` needs its arguments: `@{item.name}(property, …)`",
            item.extent,
        )
        return False
    places = join_where(allowed) or "only after an edge's endpoints: `@card(0..1)`"
    findings.add(
        "S021",
        "annotation_misplaced",
        f"`@{item.name}` cannot stand on {place}; it belongs {places}",
        item.extent,
    )
    return False


def join_where(places: Iterable[Place]) -> str:
    """`on a node type or an edge type`, in a fixed order."""
    words = [place.value for place in Place if place in places]
    return f"on {' or '.join(words)}" if words else ""


def _check_text(item: ast.Annotation, findings: Findings) -> None:
    text = item.value.text if isinstance(item.value, ast.Name) else item.value
    if item.keywords or not isinstance(text, str) or not text.strip():
        findings.add(
            "S020",
            "annotation_value",
            f'`@{item.name}` takes exactly one non-empty text: `@{item.name}("…")`',
            item.extent,
        )


def _plain(value: ast.LiteralValue | ast.Name | None) -> ast.LiteralValue | None:
    return value.text if isinstance(value, ast.Name) else value


def read_default(
    item: ast.Annotation, name: str, kind: PropType, findings: Findings
) -> Default | None:
    """The value of `@default`, fitted to the property's type; S023 when it does not fit."""
    if item.value is None or item.keywords:
        return None
    if kind.is_list or kind.scalar in (Scalar.VECTOR, Scalar.BLOB):
        problem = f"{kind} takes no `@default`"
    elif isinstance(item.value, ast.Name):
        problem = f'expected a literal, got the name {item.value.text}; write text as "…"'
    elif kind.scalar.is_integer and not _is_whole(item.value):
        problem = f"expected {kind}, got {describe_json(item.value)}"
    else:
        try:
            return Default(value=read_json(item.value, kind))
        except UnfitValue as error:
            problem = str(error)
    findings.add("S023", "default_unfit", f"`@default` of `{name}`: {problem}", item.extent)
    return None


def _is_whole(value: ast.LiteralValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def read_embed(
    item: ast.Annotation,
    name: str,
    kinds: Mapping[str, PropType],
    findings: Findings,
) -> Embed | None:
    """The source and model of `@embed`; S022 for anything it cannot mean."""
    problem = _embed_problem(item, kinds[name], kinds)
    if problem is not None:
        findings.add("S022", "embed_invalid", f"`@embed` of `{name}`: {problem}", item.extent)
        return None
    model = dict(item.keywords).get("model")
    return Embed(source=str(_plain(item.value)), model=None if model is None else str(model))


def _embed_problem(
    item: ast.Annotation, kind: PropType, kinds: Mapping[str, PropType]
) -> str | None:
    if kind.scalar is not Scalar.VECTOR:
        return f"only a Vector property can be embedded, not {kind}"
    source = _plain(item.value)
    if source is None:
        return 'it needs the text property to embed: `@embed("title")`'
    if not isinstance(source, str) or source not in kinds:
        texts = [other for other, other_kind in kinds.items() if other_kind.is_text]
        tail = did_you_mean(str(source), texts, otherwise="text properties")
        return f"unknown source `{source}`{tail}"
    source_kind = kinds[source]
    if not source_kind.is_text or source_kind.enum_values is not None:
        return f"source `{source}` must be a String, not {source_kind}"
    unknown = [keyword for keyword, _ in item.keywords if keyword != "model"]
    if unknown:
        return f"unknown keyword {join_names(unknown)}; `model` is the only one"
    model = dict(item.keywords).get("model")
    if model is not None and (not isinstance(model, str) or not model):
        return "`model` must be a non-empty text"
    return None
