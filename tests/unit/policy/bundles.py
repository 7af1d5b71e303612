"""Bundles for tests."""

from textwrap import dedent

from omnigraph.policy import CompiledPolicy
from omnigraph.policy.bundle import BundleKind
from omnigraph.policy.bundle_reader import parse_bundle

HEAD = """\
version: 1
groups: { team: [act-ann, act-bob], admins: [act-carol] }
protected_branches: [main, release]
"""


def compiled(rules: str, *, kind: BundleKind | None = BundleKind.GRAPH) -> CompiledPolicy:
    """A policy of these rules."""
    return CompiledPolicy(parse_bundle(HEAD + dedent(rules), "bundle.yaml", kind), "knowledge")


def rule(action: str, scope: str = "", *, name: str = "r", group: str = "team") -> str:
    """One rule as YAML; `scope` is its key and word."""
    narrowed = f", {scope}" if scope else ""
    allow = f"{{ actors: {{ group: {group} }}, actions: [{action}]{narrowed} }}"
    return f"- {{ id: {name}, allow: {allow} }}\n"
