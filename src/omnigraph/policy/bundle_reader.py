"""From the YAML of a bundle to a `Bundle`: strict, and every mistake told at once.

Nothing is guessed. A key that is unknown or there twice, a value of another shape, a name that
nothing declares: each refuses the bundle and is told with its file, its line and the id of its
rule. A bundle is read whole or not at all, for a rule that was overlooked is a wrong answer later.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeVar

from omnigraph.graph.access import Action
from omnigraph.ids import RESERVED_ACTOR
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.yaml_tree import YamlList, YamlMap, YamlScalar
from omnigraph.policy.bundle import ACTIONS, Bundle, BundleKind, Rule, Scope, ScopeKey
from omnigraph.policy.policy_file import PolicyFile, read_policy_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from enum import StrEnum
    from pathlib import Path

    from omnigraph.lang.source import Extent
    from omnigraph.lang.yaml_tree import YamlNode

_VERSIONS: Final = (1, 2)
_KEYS: Final = ("version", "groups", "protected_branches", "rules")
_UNREAD: Final = "; it is for rules on data, which this release does not know"
_LATER_KEYS: Final = {"attributes": _UNREAD, "data": _UNREAD}
_QUERIES: Final = "queries"
_QUERIES_LATER: Final = {_QUERIES: "; it is a key of version 2: write `version: 2`"}
_NAME: Final = re.compile("[A-Za-z0-9._:@/+-]{1,128}")
"""What an actor or a group may be called from version 2 on."""

_Word = TypeVar("_Word", bound="StrEnum")


def read_bundle(path: str | Path, kind: BundleKind | None = None) -> Bundle:
    """The bundle of a file.

    Args:
        path: the file.
        kind: what it is to guard; without it, what its actions are about.

    Raises:
        PolicyInvalid: it cannot be read, or something in it is wrong; details `diagnostics`.
    """
    return _bundle(read_policy_yaml(path, "the bundle"), kind)


def parse_bundle(source: str | bytes, name: str, kind: BundleKind | None = None) -> Bundle:
    """The bundle of a text that has been read already, as `read_bundle`."""
    return _bundle(PolicyFile(source, name, "the bundle"), kind)


def _bundle(file: PolicyFile, kind: BundleKind | None) -> Bundle:
    return file.checked(_BundleReader(file, kind).read)


class _BundleReader:
    """Reads one bundle. What is wrong is recorded; what is returned then is never used."""

    def __init__(self, file: PolicyFile, kind: BundleKind | None) -> None:
        self._file = file
        self._kind = kind
        self._version = _VERSIONS[0]
        self._groups: dict[str, tuple[str, ...]] = {}

    def read(self, root: YamlNode) -> Bundle:
        entries = self._file.section(root, "", _KEYS, later=_LATER_KEYS, required=("version",))
        self._version = self._file.version(entries.get("version"), *_VERSIONS)
        self._read_groups(entries.get("groups"))
        branches = self._branches(entries.get("protected_branches"))
        rules = self._rules(entries.get("rules"))
        return Bundle(
            kind=self._kind or BundleKind.GRAPH,
            name=self._file.name,
            groups=self._groups,
            protected_branches=frozenset(branches),
            rules=rules,
        )

    def _read_groups(self, node: YamlNode | None) -> None:
        if node is None:
            return
        if not isinstance(node, YamlMap):
            self._file.refuse_shape(node, "groups", "groups with their actors")
            return
        for name, extent in node.keys.items():
            if not name.strip():
                self._file.refuse(extent, "groups", "blank", "a group needs a name")
            else:
                self._require_name(name, extent, "groups")
            members = node.values.get(name)
            key = f"groups.{name}"
            actors = self._file.texts(members, key, "actors") if members is not None else ()
            self._groups[name] = tuple(dict.fromkeys(self._actors(actors, key)))
            if isinstance(members, YamlList) and not members.items:
                self._file.refuse(
                    members.extent,
                    key,
                    "empty_group",
                    f"the group {name!r} is empty; name its actors, or remove it",
                )

    def _actors(self, texts: Iterable[YamlScalar], key: str) -> Iterable[str]:
        for each in texts:
            if each.text.startswith(RESERVED_ACTOR):
                self._file.refuse(
                    each.extent,
                    key,
                    "reserved_actor",
                    f"{each.text!r} cannot be an actor: the system keeps {RESERVED_ACTOR!r} for"
                    " itself",
                )
            else:
                self._require_name(each.text, each.extent, key)
            yield each.text

    def _require_name(self, name: str, extent: Extent, key: str) -> None:
        if self._version > 1 and not _NAME.fullmatch(name):
            self._file.refuse(
                extent,
                key,
                "name",
                f"{name!r:.80} is no name in version 2: it has 1 to 128 letters, digits and"
                " characters of ._:@/+-",
            )

    def _branches(self, node: YamlNode | None) -> list[str]:
        if node is None:
            return []
        return [
            each.text.strip() for each in self._file.texts(node, "protected_branches", "branches")
        ]

    def _rules(self, node: YamlNode | None) -> tuple[Rule, ...]:
        if node is None:
            return ()
        if not isinstance(node, YamlList):
            self._file.refuse_shape(node, "rules", "a list of rules")
            return ()
        if self._kind is None:
            self._kind = _kind_of(node)
        for each in node.items:
            self._file.name_rule(each, _id_text(each))
        rules: dict[str, Rule] = {}
        for number, each in enumerate(node.items):
            rule = self._rule(each, f"rules[{number}]")
            if rule is None:
                continue
            if rule.id in rules:
                self._file.refuse(
                    each.extent,
                    f"rules[{number}].id",
                    "repeated_rule",
                    f"a rule above has the id {rule.id!r}; every rule needs its own",
                )
            rules[rule.id] = rule
        return tuple(rules.values())

    def _rule(self, node: YamlNode, key: str) -> Rule | None:
        entries = self._file.section(node, key, ("id", "allow"), required=("id", "allow"))
        name = self._file.text(entries.get("id"), f"{key}.id")
        allow = self._file.section(
            entries.get("allow"),
            f"{key}.allow",
            ("actors", "actions", *ScopeKey, *((_QUERIES,) if self._version > 1 else ())),
            later=_QUERIES_LATER,
            required=("actors", "actions"),
        )
        actors = self._file.section(
            allow.get("actors"), f"{key}.allow.actors", ("group",), required=("group",)
        )
        group = self._group(actors.get("group"), f"{key}.allow.actors.group")
        actions = self._actions(allow.get("actions"), f"{key}.allow.actions")
        scope = self._scope(allow, actions, f"{key}.allow")
        if name is None:
            return None
        return Rule(
            id=name,
            group=group,
            actions=tuple(actions),
            scope=scope,
            queries=self._queries(allow.get(_QUERIES), actions, f"{key}.allow.{_QUERIES}"),
            line=self._file.line(node.extent),
        )

    def _queries(
        self, node: YamlNode | None, actions: Sequence[Action], key: str
    ) -> tuple[str, ...] | None:
        if node is None or self._version == 1:
            return None
        if set(actions) != {Action.INVOKE_QUERY}:
            message = "names of queries narrow `invoke_query` alone; write a rule for it"
            self._file.refuse(node.extent, key, "queries_not_taken", message)
        if isinstance(node, YamlList) and not node.items:
            message = "a rule for no query allows nothing; leave `queries` out for all of them"
            self._file.refuse(node.extent, key, "no_queries", message)
        names = self._file.texts(node, key, "queries")
        for each in names:
            if "*" in each.text[:-1]:
                message = f"{each.text!r:.80}: `*` may only be the last character"
                self._file.refuse(each.extent, key, "query_pattern", message)
        return tuple(dict.fromkeys(each.text for each in names))

    def _group(self, node: YamlNode | None, key: str) -> str:
        name = self._file.text(node, key)
        if node is None or name is None:
            return ""
        if name not in self._groups:
            hint = did_you_mean(name, self._groups, otherwise="the groups are")
            self._file.refuse(
                node.extent, key, "unknown_group", f"there is no group {name!r}{hint}"
            )
        return name

    def _actions(self, node: YamlNode | None, key: str) -> list[Action]:
        if node is None:
            return []
        texts = self._file.texts(node, key, "actions")
        if isinstance(node, YamlList) and not node.items:
            self._file.refuse(
                node.extent, key, "no_actions", "a rule without actions allows nothing"
            )
        found: dict[Action, Extent] = {}
        for each in texts:
            action = self._word(each, key, Action, "action")
            if action is not None:
                found.setdefault(action, each.extent)
        self._require_one_kind(found, node.extent, key)
        return list(found)

    def _require_one_kind(self, actions: dict[Action, Extent], extent: Extent, key: str) -> None:
        kinds = {ACTIONS[action].kind for action in actions}
        if len(kinds) > 1:
            self._file.refuse(
                extent,
                key,
                "mixed_actions",
                "actions on the server and actions on a graph cannot share a rule; write two, in"
                " two bundles",
            )
            return
        wanted = self._kind or BundleKind.GRAPH
        for action, place in actions.items():
            if ACTIONS[action].kind is not wanted:
                self._file.refuse(
                    place,
                    key,
                    "wrong_kind",
                    f"`{action}` is about the {ACTIONS[action].kind}, and this bundle is that of"
                    f" a {wanted}; it belongs into another bundle",
                )

    def _scope(self, allow: dict[str, YamlNode], actions: Sequence[Action], key: str) -> Scope:
        given = [(name, allow[name]) for name in ScopeKey if name in allow]
        if len(given) > 1:
            self._file.refuse(
                given[1][1].extent,
                key,
                "two_scopes",
                "a rule has one scope; write two rules",
            )
        scope = Scope.ANY
        for name, node in given:
            word = self._file.text(node, f"{key}.{name}")
            if word is None or not isinstance(node, YamlScalar):
                continue
            scope = self._word(node, f"{key}.{name}", Scope, "scope") or Scope.ANY
            for action in actions:
                self._require_scope_key(action, name, node.extent, f"{key}.{name}")
        return scope

    def _require_scope_key(self, action: Action, name: ScopeKey, extent: Extent, key: str) -> None:
        takes = ACTIONS[action].scope_key
        if takes is name:
            return
        hint = "no scope" if takes is None else f"`{takes}`"
        self._file.refuse(
            extent, key, "scope_not_taken", f"`{action}` does not take `{name}`; it takes {hint}"
        )

    def _word(self, node: YamlScalar, key: str, words: type[_Word], what: str) -> _Word | None:
        if node.text in set(words):
            return words(node.text)
        hint = did_you_mean(node.text, words, otherwise="there are")
        self._file.refuse(
            node.extent, key, f"unknown_{what}", f"there is no {what} {node.text!r:.80}{hint}"
        )
        return None


def _kind_of(rules: YamlList) -> BundleKind:
    """What the actions of a bundle are about; graphs if some is, for those are the many."""
    words = {
        word.text
        for rule in rules.items
        if isinstance(rule, YamlMap) and isinstance(allow := rule.values.get("allow"), YamlMap)
        if isinstance(actions := allow.values.get("actions"), YamlList)
        for word in actions.items
        if isinstance(word, YamlScalar)
    }
    kinds = {facts.kind for action, facts in ACTIONS.items() if action in words}
    return BundleKind.SERVER if kinds == {BundleKind.SERVER} else BundleKind.GRAPH


def _id_text(rule: YamlNode) -> str | None:
    name = rule.values.get("id") if isinstance(rule, YamlMap) else None
    return name.text if isinstance(name, YamlScalar) else None
