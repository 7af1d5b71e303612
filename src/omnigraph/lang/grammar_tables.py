"""Parsers of the grammars, from tables that were built before where they fit.

Building a parser from its grammar takes longer than all the rest of a short command. The tables
beside each grammar say which text and which release of Lark they were built from; if either is
another one, the parser is built anew. `python -m omnigraph.lang.grammar_tables` writes them.
"""

import hashlib
import io
from functools import cache
from pathlib import Path

import lark
from lark import Lark

GRAMMARS = ("query.lark", "schema.lark")


@cache
def parser_of(grammar: str) -> Lark:
    """The parser of a grammar file beside this module."""
    try:
        stamp, _, tables = _tables_path(grammar).read_bytes().partition(b"\n")
    except FileNotFoundError:
        return build_parser(grammar)
    if stamp != stamp_of(grammar):
        return build_parser(grammar)
    return Lark.load(io.BytesIO(tables))


def build_parser(grammar: str) -> Lark:
    """The parser of a grammar, from its text."""
    return Lark.open(
        grammar,
        rel_to=__file__,
        parser="lalr",
        lexer="contextual",
        propagate_positions=True,
        maybe_placeholders=False,
    )


def stamp_of(grammar: str) -> bytes:
    """What the tables of a grammar depend on."""
    text = Path(__file__).with_name(grammar).read_bytes()
    return f"lark {lark.__version__} {hashlib.sha256(text).hexdigest()}".encode()


def write_tables() -> None:
    """Build the tables of every grammar."""
    for grammar in GRAMMARS:
        tables = io.BytesIO()
        build_parser(grammar).save(tables)
        _tables_path(grammar).write_bytes(stamp_of(grammar) + b"\n" + tables.getvalue())


def _tables_path(grammar: str) -> Path:
    return Path(__file__).with_name(grammar).with_suffix(".tables")


if __name__ == "__main__":
    write_tables()
