"""Plans and results of merges for people and programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.cli import exit_codes
from omnigraph.cli.change_text import excerpts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.cli.output import Output
    from omnigraph.graph.merge.conflicts import Conflict
    from omnigraph.graph.merge.merge_plan import MergePlan
    from omnigraph.graph.merge.merge_result import MergeResult


def show_plan(output: Output, plan: MergePlan, *, as_json: bool) -> int:
    """Print what a merge would do; the exit code says whether it could."""
    code = exit_codes.FAILED if plan.conflict_count else exit_codes.OK
    if as_json:
        output.write_json(plan.to_dict())
        return code
    if plan.conflict_count:
        count = f"{plan.conflict_count:,} conflict{'' if plan.conflict_count == 1 else 's'}"
        output.write(f"{plan.source} into {plan.target}: {count}, nothing would be merged")
        output.write_table(
            ("type", "id", "conflict", "property", "base", "ours", "theirs"),
            [_conflict_cells(row) for conflict in plan.conflict_list for row in conflict.rows()],
        )
        output.write_each(map(_rule_line, filter(_is_without_values, plan.conflict_list)))
    else:
        output.write(f"{plan.source} into {plan.target}: {_outcome(plan.outcome)}")
        output.write_each(map(_table_line, plan.tables.items()))
    return code


def _conflict_cells(row: Mapping[str, str | None]) -> list[str]:
    """What a person needs to see of a contested property: long values are cut."""
    values = [row[side] for side in ("base", "ours", "theirs")]
    shown = iter(excerpts(*(value for value in values if value is not None)))
    named = [row[name] or "-" for name in ("type", "id", "kind", "property")]
    return [*named, *("-" if value is None else next(shown) for value in values)]


def _is_without_values(conflict: Conflict) -> bool:
    """Whether only its message tells what is wrong, as that of a broken rule does."""
    return conflict.base is None and conflict.ours is None and conflict.theirs is None


def _rule_line(conflict: Conflict) -> str:
    return f"{conflict.type_name} {conflict.entity_id}: {conflict.told}"


def show_result(output: Output, result: MergeResult, *, as_json: bool) -> None:
    """Print how a merge ended; a branch that could not be deleted is a warning."""
    if as_json:
        from omnigraph.graph.bodies import merge_body

        output.write_json(merge_body(result))
    elif result.commit is None:
        output.write(f"{result.target} has everything of {result.source} already")
    else:
        output.write(
            f"merged {result.source} into {result.target} ({_outcome(result.outcome)}):"
            f" commit {result.commit.graph_commit_id}"
        )
        counts = result.commit.stats.get("tables", {})
        output.write_each(map(_table_line, counts.items()))
    if result.branch_deleted and not as_json:
        output.write(f"deleted branch {result.source}")
    if result.branch_delete_error is not None:
        output.warn(f"{result.source} was merged, and not deleted: {result.branch_delete_error}")


def _outcome(outcome: str) -> str:
    return outcome.replace("_", " ")


def _table_line(entry: tuple[str, Mapping[str, int]]) -> str:
    name, counts = entry
    return f"  {name}  " + ", ".join(f"{count} {what}" for what, count in counts.items() if count)
