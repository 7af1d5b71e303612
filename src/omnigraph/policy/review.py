"""What looks like a mistake in a bundle that is right: warnings, which change no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.graph.access import Action
from omnigraph.policy.bundle import BundleKind, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.policy.bundle import Bundle, Rule


def review(bundle: Bundle, token_actors: Iterable[str] = ()) -> list[str]:
    """The warnings, in the order of what they are about.

    Args:
        bundle: the bundle.
        token_actors: the actors that have a token for a server.
    """
    return [
        *_unused_groups(bundle),
        *_shadowed_rules(bundle),
        *_idle_actions(bundle),
        *_actors_without_rights(bundle),
        *_readers_without_schema(bundle),
        *_unknown_tokens(bundle, token_actors),
    ]


def _unused_groups(bundle: Bundle) -> Iterator[str]:
    used = {rule.group for rule in bundle.rules}
    for group in sorted(set(bundle.groups) - used):
        yield f"no rule uses the group {group!r}"


def _shadowed_rules(bundle: Bundle) -> Iterator[str]:
    for number, rule in enumerate(bundle.rules):
        for other_number, other in enumerate(bundle.rules):
            if number == other_number or not _covers(bundle, other, rule):
                continue
            if _covers(bundle, rule, other) and number < other_number:
                continue  # They say the same; the later one is told.
            yield f"the rule {rule.id!r} adds nothing: {other.id!r} allows all of it"
            break


def _covers(bundle: Bundle, wide: Rule, narrow: Rule) -> bool:
    return (
        set(bundle.groups[narrow.group]) <= set(bundle.groups[wide.group])
        and set(narrow.actions) <= set(wide.actions)
        and wide.scope in (Scope.ANY, narrow.scope)
        and (wide.queries is None or set(narrow.queries or ("*",)) <= set(wide.queries))
    )


def _idle_actions(bundle: Bundle) -> Iterator[str]:
    for rule in bundle.rules:
        if Action.ADMIN in rule.actions:
            yield f"the rule {rule.id!r} allows `admin`, which no operation asks for yet"


def _actors_without_rights(bundle: Bundle) -> Iterator[str]:
    used = {rule.group for rule in bundle.rules}
    for actor, groups in bundle.actors.items():
        if not used.intersection(groups):
            yield f"the actor {actor!r} has no rights: no rule uses a group of it"


def _readers_without_schema(bundle: Bundle) -> Iterator[str]:
    if bundle.kind is not BundleKind.GRAPH:
        return
    for group in sorted(bundle.groups):
        reads = [
            rule for rule in bundle.rules if rule.group == group and Action.READ in rule.actions
        ]
        if reads and all(rule.scope is not Scope.ANY for rule in reads):
            yield (
                f"the group {group!r} can read branches, but not the schema, the list of branches"
                " or a commit by its id: these have no branch, and only the scope `any` covers them"
            )


def _unknown_tokens(bundle: Bundle, token_actors: Iterable[str]) -> Iterator[str]:
    for actor in sorted(set(token_actors) - set(bundle.actors)):
        yield f"the actor {actor!r} has a token and is in no group: everything is denied to it"
