"""Property types: what a column, a parameter or an expression may hold.

Pure values with no Arrow in them; `arrow_schema.py` maps them to storage.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

MAX_VECTOR_DIM = 2_147_483_647


class Scalar(StrEnum):
    """The base types, spelled as in `.pg`."""

    STRING = "String"
    BLOB = "Blob"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATE = "Date"
    DATETIME = "DateTime"
    VECTOR = "Vector"

    @property
    def is_integer(self) -> bool:
        """One of the four integer types."""
        return self in INTEGER_RANGES

    @property
    def is_float(self) -> bool:
        """`F32` or `F64`."""
        return self is Scalar.F32 or self is Scalar.F64

    @property
    def is_numeric(self) -> bool:
        """An integer or float type."""
        return self.is_integer or self.is_float


INTEGER_RANGES: dict[Scalar, tuple[int, int]] = {
    Scalar.I32: (-(2**31), 2**31 - 1),
    Scalar.I64: (-(2**63), 2**63 - 1),
    Scalar.U32: (0, 2**32 - 1),
    Scalar.U64: (0, 2**64 - 1),
}

BASE_SCALARS: dict[str, Scalar] = {
    scalar.value: scalar for scalar in Scalar if scalar is not Scalar.VECTOR
}
"""What may stand alone or in a list; `Vector` always has a dimension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropType:
    """The type of a property, a parameter or an expression."""

    scalar: Scalar
    is_list: bool = False
    nullable: bool = False
    vector_dim: int | None = None
    enum_values: tuple[str, ...] | None = None

    def __str__(self) -> str:
        """The display name: `String`, `[I32]?`, `Vector(4)`, `enum(a, b)?`."""
        if self.enum_values is not None:
            name = f"enum({', '.join(self.enum_values)})"
        elif self.scalar is Scalar.VECTOR:
            name = f"Vector({self.vector_dim})"
        else:
            name = self.scalar.value
        if self.is_list:
            name = f"[{name}]"
        return f"{name}?" if self.nullable else name

    @property
    def is_plain(self) -> bool:
        """A scalar that can be compared and indexed: no list, vector or blob."""
        return not self.is_list and self.scalar not in (Scalar.VECTOR, Scalar.BLOB)

    @property
    def is_text(self) -> bool:
        """A scalar String; an enum counts."""
        return self.scalar is Scalar.STRING and not self.is_list

    @property
    def item(self) -> "PropType":
        """The type of a list's items."""
        return PropType(scalar=self.scalar, nullable=True, enum_values=self.enum_values)

    def as_nullable(self, *, nullable: bool) -> "PropType":
        """The same type with another nullability."""
        return self if self.nullable is nullable else replace(self, nullable=nullable)

    def is_compatible_with(self, other: "PropType") -> bool:
        """Both lists or neither, and equal or both numeric scalars of equal dimension."""
        if self.is_list is not other.is_list:
            return False
        if self.scalar is Scalar.VECTOR or other.scalar is Scalar.VECTOR:
            return self.scalar is other.scalar and self.vector_dim == other.vector_dim
        if self.scalar is other.scalar:
            return True
        return self.scalar.is_numeric and other.scalar.is_numeric

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        out: dict[str, object] = {"scalar": self.scalar.value}
        if self.is_list:
            out["list"] = True
        if self.nullable:
            out["nullable"] = True
        if self.vector_dim is not None:
            out["vector_dim"] = self.vector_dim
        if self.enum_values is not None:
            out["enum"] = list(self.enum_values)
        return out


STRING = PropType(scalar=Scalar.STRING)
BOOL = PropType(scalar=Scalar.BOOL)
I64 = PropType(scalar=Scalar.I64)
F64 = PropType(scalar=Scalar.F64)
DATE = PropType(scalar=Scalar.DATE)
DATETIME = PropType(scalar=Scalar.DATETIME)
