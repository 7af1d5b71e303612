"""What Java said below an error of Spark: the words of a driver or a file system, not of Spark.

Spark often raises its own words only, and leaves those of the cause in Java. They differ by maker
and may hold addresses and secrets: they are looked through, never shown as they are.
"""

from __future__ import annotations

from typing import Any, Final

_DEEPEST: Final = 20


def with_java_causes(error: Exception) -> str:
    """The words of an error, and below them those of its causes in Java, the outermost first."""
    told = [str(error)]
    # A classic session keeps the object of Java, under a name that depends on who raised.
    cause: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    for _ in range(_DEEPEST):
        if cause is None:
            break
        told.append(str(cause.toString()))
        cause = cause.getCause()
    # Connect sends the stack as text.
    stack: Any = getattr(error, "getStackTrace", None)
    if not told[1:] and callable(stack):
        told.append(stack() or "")
    return "\n".join(told)
