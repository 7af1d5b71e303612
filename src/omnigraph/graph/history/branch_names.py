"""The rule for names of branches and tags. They never reach Lance; it keeps them safe elsewhere."""

from __future__ import annotations

import unicodedata
from typing import Final

from omnigraph.errors import InvalidBranchName
from omnigraph.graph.history.target_texts import TargetKind, kind_of
from omnigraph.ids import MAIN_BRANCH, BranchName

_LONGEST_BYTES: Final = 255
_RESERVED: Final = ("main", "HEAD")
_OTHER_TARGETS: Final = {
    TargetKind.RESOLVED: "a resolved snapshot",
    TargetKind.COMMIT: "the id of a commit",
    TargetKind.NUMBER: "a number",
    TargetKind.TIME: "a time",
}


def parse_branch_name(name: str) -> BranchName:
    """A name that a new branch may have.

    Raises:
        InvalidBranchName: with the rule that it breaks.
    """
    reason = _reason(name)
    if reason is not None:
        raise InvalidBranchName(
            f"{name!r} cannot be the name of a branch: {reason}", branch=name, reason=reason
        )
    return BranchName(name)


def parse_tag_name(name: str) -> str:
    """A name that a new tag may have: one of a branch that no other read target can be meant by.

    Raises:
        InvalidBranchName: with the rule that it breaks.
    """
    reason = _reason(name) or _other_target(name)
    if reason is not None:
        raise InvalidBranchName(
            f"{name!r} cannot be the name of a tag: {reason}", tag=name, reason=reason
        )
    return name


def refuse_main(name: str, verb: str) -> None:
    """Refuse what cannot be done to `main`.

    Raises:
        InvalidBranchName: the branch is `main`.
    """
    if name == MAIN_BRANCH:
        raise InvalidBranchName(
            f"the branch 'main' cannot be {verb}: it is the graph itself; to remove a graph, remove"
            " its folder or prefix",
            branch=name,
            reason="main is the graph itself",
        )


def _reason(name: str) -> str | None:
    return "it is no text" if not isinstance(name, str) else _reserved(name) or _broken_rule(name)


def _other_target(name: str) -> str | None:
    kind = kind_of(name)
    if kind is TargetKind.NAME:
        return None
    return f"it reads as {_OTHER_TARGETS[kind]}, which a snapshot is named by, too"


def _reserved(name: str) -> str | None:
    if name in _RESERVED:
        return "the name is reserved"
    if name.startswith("__"):
        return "names that start with __ belong to the system"
    return None


def _broken_rule(name: str) -> str | None:
    if not name:
        return "it is empty"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "it is not valid text"
    if size > _LONGEST_BYTES:
        return f"it has {size} bytes, at most {_LONGEST_BYTES} are allowed"
    if unicodedata.normalize("NFC", name) != name:
        return "it is not in Unicode normal form C"
    return next((why for part in name.split("/") if (why := _broken_part(part))), None)


def _broken_part(part: str) -> str | None:
    if not part:
        return "a segment between slashes is empty"
    wrong = next((char for char in part if not (char.isalnum() or char in "._-")), None)
    if wrong is not None:
        return f"it holds {wrong!r}; letters, digits, '.', '-', '_' and '/' are allowed"
    if part[0] in ".-":
        return f"a segment starts with {part[0]!r}"
    if part.endswith(".lock"):
        return "a segment ends in '.lock'"
    return None
