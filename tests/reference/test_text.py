"""The text of the reference against the analyzer that the system uses."""

from random import Random  # noqa: TID251 - seeded

import lance
import pyarrow as pa
from lance.query import PhraseQuery
from tests.guards.lance_tables import TEXT_ANALYZER, matching, search
from tests.reference import text
from tests.reference.graphs import phrase


def test_the_reference_finds_in_its_vocabulary_what_the_analyzer_finds() -> None:
    rng = Random("text")  # noqa: S311 - no secret
    fields = {f"{number:03}": phrase(rng) for number in range(200)}
    rows = pa.table({"id": list(fields), "body": list(fields.values())})
    indexed = lance.write_dataset(rows, "memory://reference-text")
    indexed.create_scalar_index("body", "INVERTED", **TEXT_ANALYZER)
    for _ in range(60):
        query = phrase(rng)
        any_word = [name for name, field in fields.items() if text.has_any(field, query)]
        assert search(indexed, query) == any_word, query
        if text.tokens(query):
            as_phrase = [name for name, field in fields.items() if text.has_phrase(field, query)]
            assert matching(indexed, PhraseQuery(query, "body")) == as_phrase, query
