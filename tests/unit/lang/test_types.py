import pytest

from omnigraph.lang import PropType, Scalar, compile_schema
from omnigraph.lang.types import BASE_SCALARS

_VECTOR = PropType(scalar=Scalar.VECTOR, vector_dim=4)


def _declared(text: str) -> PropType:
    return compile_schema(f"node A {{ x: {text} }}").node_types["A"].properties["x"].type


@pytest.mark.parametrize(
    "text",
    [
        *BASE_SCALARS,
        *(f"{name}?" for name in BASE_SCALARS),
        *(f"[{name}]" for name in BASE_SCALARS if name != "Blob"),
        *("[I32]?", "Vector(4)", "Vector(2147483647)?", "enum(a, b)", "enum(a, b)?"),
    ],
)
def test_the_display_name_is_what_declares_the_type(text: str) -> None:
    assert str(_declared(text)) == text


def _is_compatible(one: PropType, other: PropType) -> bool:
    assert one.is_compatible_with(other) is other.is_compatible_with(one)
    return one.is_compatible_with(other)


def test_numbers_are_compatible_with_numbers() -> None:
    numeric = [scalar for scalar in Scalar if scalar.is_numeric]
    assert len(numeric) == 6
    for one in Scalar:
        for other in Scalar:
            if Scalar.VECTOR in (one, other):
                continue
            expected = one is other or (one in numeric and other in numeric)
            assert _is_compatible(PropType(scalar=one), PropType(scalar=other)) is expected


def test_lists_are_compatible_with_lists_and_vectors_with_their_dimension() -> None:
    numbers = PropType(scalar=Scalar.I32, is_list=True)
    assert _is_compatible(numbers, PropType(scalar=Scalar.F64, is_list=True))
    assert not _is_compatible(numbers, PropType(scalar=Scalar.I32))
    assert _is_compatible(_VECTOR, _VECTOR.as_nullable(nullable=True))
    assert not _is_compatible(_VECTOR, PropType(scalar=Scalar.VECTOR, vector_dim=3))
    assert not _is_compatible(_VECTOR, PropType(scalar=Scalar.F32, is_list=True))


def test_an_enum_counts_as_text() -> None:
    level = PropType(scalar=Scalar.STRING, enum_values=("a",))
    assert level.is_text
    assert _is_compatible(level, PropType(scalar=Scalar.STRING))


def test_plain_types_are_those_that_can_be_compared() -> None:
    assert [scalar for scalar in Scalar if not PropType(scalar=scalar).is_plain] == [
        Scalar.BLOB,
        Scalar.VECTOR,
    ]
    assert not PropType(scalar=Scalar.I32, is_list=True).is_plain


def test_items_of_a_list_may_be_null() -> None:
    assert str(PropType(scalar=Scalar.I32, is_list=True).item) == "I32?"


def test_nullability_changes_nothing_else() -> None:
    kind = PropType(scalar=Scalar.STRING, enum_values=("a", "b"))
    assert kind.as_nullable(nullable=False) is kind
    assert kind.as_nullable(nullable=True).as_nullable(nullable=False) == kind
