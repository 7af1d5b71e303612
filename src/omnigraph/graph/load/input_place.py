"""Where a row stands in the input of a load: in which part or table, on which line of it.

Packed it is one number that ascends in the order of the input: the part in the upper bits, the line
below. So it is a column beside keys, the line of a violation while a job knows no files yet, and
what a rejected row is known by. Only this module knows the bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_LINE_BITS: Final = 40
_LINE_MASK: Final = (1 << _LINE_BITS) - 1


class InputPlace(NamedTuple):
    """The place of one row."""

    ordinal: int
    """The number of the part, or of the table."""
    line: int
    """Within the part."""

    @classmethod
    def unpacked(cls, packed: int) -> InputPlace:
        """The place that a number stands for."""
        return cls(packed >> _LINE_BITS, packed & _LINE_MASK)

    @property
    def packed(self) -> int:
        """The number that stands for the place."""
        return self.ordinal << _LINE_BITS | self.line


def packed_places(ordinal: int, lines: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The numbers of many lines of one part."""
    return lines + (ordinal << _LINE_BITS)
