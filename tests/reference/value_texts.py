"""Random values that are computed from columns, none of which can leave the range of its type."""

from random import Random  # noqa: TID251 - seeded

from omnigraph.lang import EdgeType, PropType, Scalar

_I64 = PropType(scalar=Scalar.I64, nullable=True)
_F64 = PropType(scalar=Scalar.F64, nullable=True)
_TEXT = PropType(scalar=Scalar.STRING, nullable=True)
_NUMBERS = ("1", "2", "-3", "0", "7")


def value_of(rng: Random, text: str, kind: PropType) -> tuple[str, PropType] | None:
    """A value computed from a column of this text and type, and its type; None if there is none."""
    if kind.is_list:
        return f"length({text})", _I64
    number = rng.choice(_NUMBERS)
    match kind.scalar:
        case Scalar.STRING:
            forms = [
                (f"lower({text})", _TEXT),
                (f"trim({text})", _TEXT),
                (f'{text} + "a"', _TEXT),
                (f'coalesce({text}, "ab")', _TEXT),
                (f'if({text} >= "b", {text}, "b" + upper({text}))', _TEXT),
                (f"length({text}) * {number}", _I64),
            ]
        case Scalar.I32 | Scalar.U32:
            forms = [
                (f"{text} + {number}", _I64),
                (f"({text} - {number}) * -2", _I64),
                (f"0 - {text}", _I64),
                (f"{text} % {number}", _I64),
                (f"{text} / {number}", _F64),
                (f"coalesce({text}, {number}) + 1", _I64),
                (f"if({text} > {number} or {text} is null, 1, {text})", _I64),
            ]
        case Scalar.I64:
            forms = [(f"{text} % {number}", _I64), (f"{text} / {number}", _F64)]
        case Scalar.F32 | Scalar.F64:
            forms = [
                (f"{text} + {number}", _F64),
                (f"{text} / 3", _F64),
                (f"{number}.5 - {text}", _F64),
                (f"floor({text})", kind),
                (f"round({text})", kind),
                (f"abs({text})", kind),
            ]
        case Scalar.DATE | Scalar.DATETIME:
            forms = [(f"{part}({text})", _I64) for part in ("year", "month", "day")]
        case _:
            return None
    return rng.choice(forms)


def degree(rng: Random, var: str, type_name: str, edges: list[EdgeType]) -> str | None:
    """How many edges of some type a node has, as a value."""
    fitting = [edge for edge in edges if type_name in (edge.from_type, edge.to_type)]
    if not fitting:
        return None
    edge = rng.choice(fitting)
    word = edge.name[0].lower() + edge.name[1:]
    left, right = (f"${var}", "$_") if edge.from_type == type_name else ("$_", f"${var}")
    return f"count {{ {left} {word} {right} }}"
