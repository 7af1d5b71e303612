"""Strategies for the words of both languages: names, type names, texts and numbers."""

from hypothesis import strategies as st

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1
MIN_DAY, MAX_DAY = -719_162, 2_932_896
MIN_MS, MAX_MS = MIN_DAY * 86_400_000, (MAX_DAY + 1) * 86_400_000 - 1

_KEYWORDS = (
    *("query", "match", "return", "not", "as", "order", "limit", "insert", "update", "delete"),
    *("set", "where", "asc", "desc", "contains", "starts_with", "null", "now", "count", "date"),
    *("node", "edge", "interface", "implements", "enum", "key", "unique", "index", "card"),
)
BOOLEAN_WORDS = ("true", "false")
"""The two words that stay literals wherever an expression may stand."""

names = st.one_of(
    st.from_regex(r"[a-z_][A-Za-z0-9_]{0,6}", fullmatch=True), st.sampled_from(_KEYWORDS)
)
expression_names = names.filter(lambda name: name not in BOOLEAN_WORDS)
type_names = st.from_regex(r"[A-Z][A-Za-z0-9_]{0,6}", fullmatch=True)
enum_values = st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
integers = st.one_of(st.integers(-100, 100), st.integers(MIN_INTEGER, MAX_INTEGER))
naturals = st.one_of(st.integers(0, 9), st.integers(0, 2**63 - 1))
floats = st.floats(allow_nan=False, allow_infinity=False)
days = st.integers(MIN_DAY, MAX_DAY)
milliseconds = st.integers(MIN_MS, MAX_MS)
