"""Damaged sources: only typed errors, every finding inside the source, nothing slow."""

import re
from collections.abc import Callable
from time import thread_time

import numpy as np
import pytest
from tests.property.corpus_texts import (
    GROWN_QUERIES,
    PAPERS_SCHEMA,
    QUERY_SEEDS,
    SCHEMA_SEEDS,
    exercise_queries,
    exercise_schema,
)
from tests.property.strategies import CATALOG

from omnigraph.lang import compile_schema

_SLOWEST_S = 5.0
_QUICK, _CHUNK, _CHUNKS, _GROWN_CHUNKS = 500, 2_500, 20, 40
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[A-Za-z0-9_$@]+|\s+|.', re.DOTALL)
_SPLICES = (
    *(
        b"\x00",
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        "é€😀".encode(),
        b"\xe2\x80\xa8",
    ),
    *(
        b'"',
        b"\\",
        b"/*",
        b"*/",
        b"//",
        b"\n",
        b"\r",
        b"{",
        b"}",
        b"[",
        b"]",
        b"(",
        b")",
        b"<",
        b">",
    ),
    *(b"9" * 5_000, b"0." + b"1" * 2_000, b"1" * 400 + b".0", b"-0", b"18446744073709551616"),
    *(
        b"[" * 70,
        b"not {" * 70,
        b"(" * 300,
        b"$_",
        b"$__now",
        b"@key",
        b"@card(0..1)",
        b"..",
        b"->",
    ),
    *(
        b"null",
        b"true",
        b"now()",
        b"count($p)",
        b"{1,}",
        b"{0,99}",
        b"Vector(0)",
        b"enum()",
        b"a" * 3_000,
    ),
    *(
        b"node A {} ",
        b"edge E: A -> A ",
        b"query q() { delete A where x = 1 } ",
        b"limit 0",
        b"as x",
    ),
    *(
        b" or ",
        b" and ",
        b" is not null ",
        b" not in [1] ",
        b"not (",
        b"optional { ",
        b"exists { ",
        b"count { ",
        b"if(",
        b"coalesce(null, ",
        b"having { ",
        b"distinct ",
        b"hops($p, $f)",
        b" - 1",
        b" -1",
        b"% ",
    ),
)


class _Mutator:
    """Applies a few random damages to a text; the same seed gives the same texts."""

    def __init__(self, seed: int, texts: tuple[str, ...]) -> None:
        self._random = np.random.default_rng(seed)
        self._texts = [text.encode() for text in texts]
        self._damages: tuple[Callable[[bytes], bytes], ...] = (
            *(self._flip, self._delete, self._double, self._swap, self._splice, self._insert),
            *(self._truncate, self._nest, self._replace),
        )

    def _below(self, bound: int) -> int:
        return int(self._random.integers(0, max(1, bound)))

    def next(self) -> bytes:
        data = self._texts[self._below(len(self._texts))]
        for _ in range(1 + self._below(2)):
            data = self._damages[self._below(len(self._damages))](data)
        return data

    def _flip(self, data: bytes) -> bytes:
        out = bytearray(data)
        for _ in range(1 + self._below(3)):
            if out:
                out[self._below(len(out))] ^= 1 << self._below(8)
        return bytes(out)

    def _token_edit(self, data: bytes, edit: Callable[[list[bytes], int], None]) -> bytes:
        tokens = _TOKEN.findall(data)
        if tokens:
            edit(tokens, self._below(len(tokens)))
        return b"".join(tokens)

    def _delete(self, data: bytes) -> bytes:
        return self._token_edit(data, lambda tokens, at: tokens.__delitem__(at))

    def _double(self, data: bytes) -> bytes:
        return self._token_edit(data, lambda tokens, at: tokens.insert(at, tokens[at]))

    def _swap(self, data: bytes) -> bytes:
        def swap(tokens: list[bytes], at: int) -> None:
            other = self._below(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]

        return self._token_edit(data, swap)

    def _replace(self, data: bytes) -> bytes:
        def replace(tokens: list[bytes], at: int) -> None:
            tokens[at] = _SPLICES[self._below(len(_SPLICES))]

        return self._token_edit(data, replace)

    def _insert(self, data: bytes) -> bytes:
        at = self._below(len(data) + 1)
        return data[:at] + _SPLICES[self._below(len(_SPLICES))] + data[at:]

    def _splice(self, data: bytes) -> bytes:
        other = self._texts[self._below(len(self._texts))]
        begin = self._below(len(other))
        at = self._below(len(data) + 1)
        return data[:at] + other[begin : begin + self._below(80)] + data[at:]

    def _truncate(self, data: bytes) -> bytes:
        return data[: self._below(len(data) + 1)]

    def _nest(self, data: bytes) -> bytes:
        at = self._below(len(data) + 1)
        depth = 1 + self._below(100)
        pairs = ((b"[", b"]"), (b"not { ", b" }"), (b"{", b"}"), (b"count(", b")"))
        opens, closes = pairs[self._below(len(pairs))]
        return data[:at] + opens * depth + data[at : at + 9] + closes * depth + data[at + 9 :]


def _run(mutator: _Mutator, count: int, exercise: Callable[[bytes], object]) -> None:
    slowest, culprit = 0.0, b""
    for _ in range(count):
        data = mutator.next()
        started = thread_time()
        try:
            exercise(data)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} on {data!r}") from error
        taken = thread_time() - started
        if taken > slowest:
            slowest, culprit = taken, data
    assert slowest < _SLOWEST_S, culprit


def _queries(data: bytes) -> None:
    exercise_queries(CATALOG, data)


_PAPERS = compile_schema(PAPERS_SCHEMA)


def _papers_queries(data: bytes) -> None:
    exercise_queries(_PAPERS, data)


def test_the_texts_to_damage_are_valid() -> None:
    assert all(exercise_schema(text).error is None for text in SCHEMA_SEEDS)
    for text in QUERY_SEEDS:
        catalog = CATALOG if exercise_queries(_PAPERS, text).error else _PAPERS
        assert exercise_queries(catalog, text).error is None, text


def test_damaged_schemas_give_typed_errors() -> None:
    _run(_Mutator(1, SCHEMA_SEEDS), _QUICK, exercise_schema)


def test_damaged_queries_give_typed_errors() -> None:
    _run(_Mutator(2, QUERY_SEEDS), _QUICK, _queries)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_many_damaged_schemas_give_typed_errors(chunk: int) -> None:
    _run(_Mutator(1_000 + chunk, SCHEMA_SEEDS), _CHUNK, exercise_schema)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_many_damaged_queries_give_typed_errors(chunk: int) -> None:
    exercise = _queries if chunk % 2 else _papers_queries
    _run(_Mutator(2_000 + chunk, QUERY_SEEDS), _CHUNK, exercise)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("chunk", range(_GROWN_CHUNKS))
def test_many_damaged_queries_of_conditions_blocks_and_values_give_typed_errors(chunk: int) -> None:
    _run(_Mutator(3_000 + chunk, GROWN_QUERIES), _CHUNK, _queries)
