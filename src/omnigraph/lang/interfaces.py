"""Variables bound with an interface: what may be read of them, and when two are one node.

Such a variable may be of several node types, and only what the interface declares can be read. Ids
of two types are two nodes even if they are equal.
"""

from typing import TYPE_CHECKING

from omnigraph.lang import ir
from omnigraph.lang.diagnostics import join_names
from omnigraph.lang.source import Extent

if TYPE_CHECKING:
    from omnigraph.lang.expressions import ExprChecker


def is_beyond_interface(checker: "ExprChecker", type_name: str, name: str, extent: Extent) -> bool:
    """True, with T39, for a property that node types have and their interface has not."""
    catalog = checker.catalog
    nodes = [
        node
        for node in catalog.implementing.get(type_name, ())
        if name in catalog.node_types[node].properties
    ]
    if not nodes:
        return False
    checker.report(
        "T39",
        "interface_misuse",
        f"interface `{type_name}` has no property `{name}`, only {join_names(nodes)} of those that "
        "implement it; bind the variable to a node type, or declare the property in the interface",
        extent,
    )
    return True


def as_nodes(checker: "ExprChecker", found: ir.Filter) -> ir.Condition:
    """The comparison; of two node variables, one of them of an interface, as that of nodes."""
    match found:
        case ir.Filter(ir.NodeId(left), ir.FilterOp.EQ | ir.FilterOp.NE, ir.NodeId(right)):
            kinds = {checker.scope.node(left), checker.scope.node(right)}
        case _:
            return found
    if not kinds & checker.catalog.interfaces.keys():
        return found
    types = (checker.scope.type_of(name) for name in (left, right))
    is_same = ir.AllOf(
        (
            ir.Filter(next(types), ir.FilterOp.EQ, next(types)),
            ir.Filter(found.left, ir.FilterOp.EQ, found.right),
        )
    )
    return is_same if found.op is ir.FilterOp.EQ else ir.Negated(is_same)
