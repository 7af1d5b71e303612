"""Names that functions have in other languages, and what they are called here.

The table holds what people bring along. For any other unknown name the nearest known ones are
proposed, and all of them listed.
"""

from collections.abc import Iterable

from omnigraph.lang.diagnostics import join_names
from omnigraph.lang.suggest import did_you_mean

_NAMES: dict[str, str] = {
    'texts are joined by `+`: `$p.x + " " + $p.y`': "concat concat_ws",
    "write `length(x)`: the characters of a String, or the items of a list": (
        "size len char_length character_length array_length cardinality list_length"
    ),
    "write `coalesce(a, b)`": "ifnull nvl isnull if_null",
    "write `lower(x)`": "tolower lcase to_lower lowercase",
    "write `upper(x)`": "toupper ucase to_upper uppercase",
    "write `trim(x)`": "ltrim rtrim strip btrim",
    "write `ceil(x)`": "ceiling",
    "write `avg(x)`": "average mean",
    "write `collect(x)`": "collect_list collect_set array_agg group_concat string_agg list_agg",
    "write `now()`": "today current_date current_timestamp getdate sysdate",
    "write `year(d)`, `month(d)`, `day(d)` or `hour(d)`": "date_part datepart extract date_trunc",
    "write `type($x)`": "label labels typeof type_of kind",
    "the id of a node is the variable itself: `$p`": "id node_id element_id elementid",
    "count the edges: `count { $p knows $_ }`": "degree outdegree indegree out_degree in_degree",
    "bound a traversal, `$a knows{1,4} $b`, and write `path($a, $b)` or `hops($a, $b)`": (
        "shortestpath shortest_path allshortestpaths path_length distance"
    ),
    "write `if(condition, a, b)`": "iif case when decode",
}
_BY_NAME = {name: hint for hint, names in _NAMES.items() for name in names.split()}


def suggest_function(name: str, known: Iterable[str]) -> str:
    """A tail for a message about an unknown function: what to write instead."""
    hint = _BY_NAME.get(name.casefold())
    if hint is not None:
        return f"; {hint}"
    return f"{did_you_mean(name, known)}; known are {join_names(known)}"
