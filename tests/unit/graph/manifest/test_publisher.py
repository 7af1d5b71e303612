"""The one function that makes data visible: what it refuses, and in which order."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.unit.graph.graphs import Opened, Watcher, merge_rows, once, upsert

from omnigraph import Graph
from omnigraph.clock import SystemClock
from omnigraph.errors import (
    ExpectedVersionMismatch,
    Fenced,
    OmnigraphError,
    PreconditionFailed,
    ReadSetChanged,
    StorageUnavailable,
)
from omnigraph.failpoints import Action, armed
from omnigraph.graph.lifecycle.line_upkeep import WIDTH
from omnigraph.graph.manifest.intent import (
    Intent,
    NamedTable,
    ParentRule,
    PlannedPin,
    PlannedSchema,
)
from omnigraph.graph.manifest.publisher import (
    PUBLISHER_RETRY_BUDGET,
    AlreadyPublished,
    PublishContention,
    Published,
)
from omnigraph.graph.manifest.rows import RecoveryRow
from omnigraph.ids import MAIN_BRANCH_ID, OperationId, UlidSource, new_commit_id, new_operation_id
from omnigraph.storage.signals import StorageSignal

_ids = UlidSource(SystemClock())


def intent(graph: Graph, **changes: Any) -> Intent:  # noqa: ANN401 - fields of an intent
    """A commit without table effects on the head as it is."""
    line = graph._graph.lines.read(MAIN_BRANCH_ID)
    plain = Intent(
        operation_id=new_operation_id(_ids),
        commit_id=new_commit_id(_ids),
        kind="merge",
        authored_at=1,
        authored_branch="main",
        schema_from=line.schema.schema_hash,
        expected_head=line.head.commit_id,
    )
    return msgspec.structs.replace(plain, **changes)


def publish(graph: Graph, wanted: Intent) -> Published | AlreadyPublished:
    return graph._graph.publisher.publish(MAIN_BRANCH_ID, wanted)


def pins_of(graph: Graph, *, expected: int | None = None) -> tuple[PlannedPin, ...]:
    """A pin that shows each table as it is, expected as it is or at another version."""
    return tuple(
        PlannedPin(
            table_id=ref.table_id,
            incarnation=ref.incarnation,
            table_key=pin.table_key,
            location=pin.location,
            branch=pin.branch,
            version=pin.version,
            row_count=pin.row_count,
            expected_branch=pin.branch,
            expected_version=pin.version if expected is None else expected,
        )
        for ref, pin in graph._graph.lines.read(MAIN_BRANCH_ID).pins.items()
    )


def fence(graph: Graph, wanted: Intent) -> None:
    row = RecoveryRow(
        operation_id=OperationId(wanted.operation_id),
        recovery_kind="rolled_back",
        writer_kind="mutation",
        recovery_for_actor=None,
        recovered_by={},
        recovered_at=1,
    )
    merge_rows(graph._graph.storage, [row])


def test_a_publish_moves_the_head_by_one_and_its_commit_is_its_child(graphs: Opened) -> None:
    graph = graphs.init()
    before = graph._graph.lines.read(MAIN_BRANCH_ID).head
    wanted = intent(graph)
    done = publish(graph, wanted)
    assert isinstance(done, Published)
    assert (done.commit.seq, done.commit.parent) == (before.seq + 1, before.commit_id)
    for each in (graph, graphs.read_only()):
        head = each._graph.lines.read(MAIN_BRANCH_ID).head
        assert (head.commit_id, head.seq) == (wanted.commit_id, before.seq + 1)


def test_a_publish_of_a_published_intent_changes_nothing(graphs: Opened) -> None:
    graph = graphs.init()
    wanted = intent(graph)
    first = publish(graph, wanted)
    upsert(graph, "a")
    fence(graph, wanted)
    again = publish(graph, wanted)
    assert isinstance(again, AlreadyPublished)
    assert again.commit == first.commit
    assert len(graph.commits.list()) == 3


def test_a_lost_acknowledgement_is_found_on_the_line(graphs: Opened) -> None:
    graph = graphs.init()
    with armed("publish.ack_lost", Action.RAISE):
        done = publish(graph, intent(graph))
    assert isinstance(done, AlreadyPublished)
    assert len(graph.commits.list()) == 2


def test_a_write_whose_acknowledgement_is_lost_is_there_once(graphs: Opened) -> None:
    graph = graphs.init()
    with armed("publish.ack_lost", Action.RAISE):
        made = upsert(graph, "a")
    assert [each.graph_commit_id for each in graph.commits.list(kind="mutation")] == [
        made.graph_commit_id
    ]


def test_rounds_that_are_all_lost_are_contention_and_publish_nothing(graphs: Opened) -> None:
    graph = graphs.init()
    rounds = []

    def lose() -> None:
        rounds.append(1)
        raise OSError("Too many concurrent writers")

    with armed("publish.contention", lose), pytest.raises(PublishContention):
        publish(graph, intent(graph))
    assert len(rounds) == PUBLISHER_RETRY_BUDGET == 5
    assert len(graph.commits.list()) == 1


def test_a_publish_that_another_overtakes_takes_it_as_its_parent(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    theirs: list[str] = []
    overtake = once(lambda: theirs.append(publish(other, intent(other)).commit.commit_id))
    with armed("publish.post_read_pre_commit", overtake):
        done = publish(graph, intent(graph))
    assert isinstance(done, Published)
    assert [done.commit.parent] == theirs
    assert [each.graph_manifest_version for each in graph.commits] == [2, 1, 0]


def test_an_exact_publish_that_another_overtakes_is_refused(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    overtake = once(lambda: publish(other, intent(other)))
    wanted = intent(graph, parent_rule=ParentRule.EXACT)
    with (
        armed("publish.post_read_pre_commit", overtake),
        pytest.raises(ReadSetChanged) as caught,
    ):
        publish(graph, wanted)
    assert caught.value.details["member"] == "graph_head"
    assert len(graph.commits.list()) == 2


def test_a_conditional_publish_that_another_overtakes_fails_its_condition(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    overtake = once(lambda: publish(other, intent(other)))
    head = graph.snapshot().graph_commit_id
    with (
        armed("publish.post_read_pre_commit", overtake),
        pytest.raises(PreconditionFailed) as caught,
    ):
        publish(graph, intent(graph, if_commit=head))
    assert caught.value.details == {
        "expected": head,
        "actual": other.snapshot().graph_commit_id,
    }


def _wrong_pin(graph: Graph) -> dict[str, object]:
    return {"pins": pins_of(graph, expected=99)}


WRONG: tuple[tuple[type[OmnigraphError], Callable[[Graph], dict[str, object]]], ...] = (
    (PreconditionFailed, lambda _: {"if_commit": "another"}),
    (ReadSetChanged, lambda _: {"schema_from": "another"}),
    (ExpectedVersionMismatch, _wrong_pin),
    (ReadSetChanged, lambda _: {"parent_rule": ParentRule.EXACT, "expected_head": "another"}),
)


@pytest.mark.parametrize("first", range(len(WRONG)))
def test_of_everything_that_is_wrong_the_first_in_order_is_reported(
    graphs: Opened, first: int
) -> None:
    graph = graphs.init()
    changes: dict[str, object] = {}
    for _, change in WRONG[first:]:
        changes |= change(graph)
    with pytest.raises(WRONG[first][0]) as caught:
        publish(graph, intent(graph, **changes))
    members = {1: "schema", 3: "graph_head"}
    assert caught.value.details.get("member") == members.get(first)
    assert len(graph.commits.list()) == 1


def test_a_recovered_operation_is_fenced_whatever_else_is_wrong(graphs: Opened) -> None:
    graph = graphs.init()
    wanted = intent(graph, if_commit="another", **_wrong_pin(graph))
    fence(graph, wanted)
    with pytest.raises(Fenced) as caught:
        publish(graph, wanted)
    assert caught.value.details == {"operation_id": wanted.operation_id}


def test_pins_on_another_line_or_of_a_table_that_is_gone_do_not_match(graphs: Opened) -> None:
    graph = graphs.init()
    (one, *_) = pins_of(graph)
    for wrong in (
        msgspec.structs.replace(one, expected_branch="b-01j"),
        msgspec.structs.replace(one, table_id=77),
    ):
        with pytest.raises(ExpectedVersionMismatch):
            publish(graph, intent(graph, pins=(wrong,)))


def test_a_publish_registers_ends_and_accepts_in_one_commit(graphs: Opened) -> None:
    graph = graphs.init()
    before = graph._graph.lines.read(MAIN_BRANCH_ID)
    ended = next(ref for ref, pin in before.pins.items() if pin.table_key == "edge:Knows")
    new = NamedTable(table_id=9, incarnation=1, table_key="node:New", location="nodes/9-1")
    gone = NamedTable(
        table_id=ended.table_id, incarnation=ended.incarnation, table_key="edge:Knows"
    )
    schema = PlannedSchema(schema_hash="next", next_type_id=10, next_property_id=20)
    pin = PlannedPin(
        table_id=9,
        incarnation=1,
        table_key="node:New",
        location="nodes/9-1",
        branch=None,
        version=1,
        row_count=0,
    )
    wanted = intent(graph, registrations=(new,), tombstones=(gone,), schema_to=schema, pins=(pin,))
    publish(graph, wanted)
    line = graphs.read_only()._graph.lines.read(MAIN_BRANCH_ID)
    assert sorted(each.table_key for each in line.pins.values()) == [
        "node:Doc",
        "node:New",
        "node:Person",
    ]
    assert line.has_table(new.ref)
    assert line.is_ended(ended)
    assert line.schema.schema_hash == line.head_commit.schema_hash == "next"
    assert line.pins_at(0) == before.pins


def test_a_long_line_is_compacted_and_shows_the_same(graphs: Opened) -> None:
    graph = graphs.init()
    for _ in range(WIDTH + 2):
        publish(graph, intent(graph))
    line = graph._graph.lines.read(MAIN_BRANCH_ID)
    assert line.handle.fragments > WIDTH
    graph._graph.upkeep.after_publish(MAIN_BRANCH_ID)
    after = graphs.read_only()._graph.lines.read(MAIN_BRANCH_ID)
    assert after.handle.fragments < 3
    assert after.tip.pins() == line.tip.pins()
    assert after.rows.sort_by("object_id").equals(line.rows.sort_by("object_id"))
    done = publish(graph, intent(graph))
    assert done.commit.parent == line.head.commit_id


def test_a_compaction_that_another_overtakes_is_given_up(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    for _ in range(3):
        publish(graph, intent(graph))
    stale = graph._graph.lines.read(MAIN_BRANCH_ID)
    landed = publish(other, intent(other))
    with pytest.raises((StorageSignal, StorageUnavailable)):
        graph._graph.storage.manifest.compact(stale.handle)
    assert graph.snapshot().graph_commit_id == landed.commit.commit_id
    assert len(graph.commits.list()) == 5


def test_what_fails_after_the_publish_does_not_fail_the_write(graphs: Opened) -> None:
    graphs.init()
    watcher = Watcher()
    graph = graphs.coordinated(observer=watcher)

    def break_the_store() -> None:
        watcher.before_each = None
        watcher.fail("latest_version", "__manifest", OSError("the store is gone"))

    with armed("lease.release", break_the_store):
        made = upsert(graph, "a")
    watcher.before_each = None
    assert graph.snapshot().graph_commit_id == made.graph_commit_id
