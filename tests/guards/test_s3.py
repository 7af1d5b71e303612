"""Lance and obstore on S3: what is as on a local disk, what failures look like, what calls cost.

The server is the stand-in of `tests/s3`, so these guards pin the clients, not Amazon.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, cast

import lance
import obstore
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance import LanceDataset
from lance.commit import CommitConflictError
from obstore.exceptions import (
    AlreadyExistsError,
    GenericError,
    PermissionDeniedError,
    PreconditionError,
)
from obstore.store import S3Store
from tests.guards.lance_tables import (
    SCHEMA,
    STORAGE_VERSION,
    commit,
    commit_anywhere,
    fork,
    ids,
    inverted,
    restore,
    rows,
    search,
    something,
    stage_append,
    stage_delete,
    stage_index,
    stage_merge_insert,
    stage_overwrite,
    stamp,
    transaction_at,
    write_rows,
)
from tests.guards.manifest_table import MANIFEST, manifest_rows, objects, publish
from tests.s3.stand_in import BUCKET, Access, Failure, Kind, Seen, StandIn

if TYPE_CHECKING:
    from obstore.store import S3Config

pytestmark = pytest.mark.s3

_ROOT = Path(__file__).parents[2]
NO_RETRY = {"client_max_retries": "0"}


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    with StandIn() as running:
        yield running


@pytest.fixture
def s3(server: StandIn) -> StandIn:
    server.forget()
    return server


@pytest.fixture
def store(s3: StandIn) -> S3Store:
    return s3.endpoint.store("graph")


def _create(s3: StandIn, table: pa.Table, schema: pa.Schema = SCHEMA) -> LanceDataset:
    return lance.write_dataset(
        table,
        s3.uri("t"),
        schema=schema,
        mode="create",
        data_storage_version=STORAGE_VERSION,
        enable_stable_row_ids=True,
        storage_options=s3.storage_options(),
    )


def _create_manifest(s3: StandIn) -> LanceDataset:
    return _create(s3, manifest_rows(graph_head="genesis"), MANIFEST)


def _open(s3: StandIn, version: int | None = None, /, **options: str) -> LanceDataset:
    return lance.dataset(
        s3.uri("t"), version=version, storage_options=s3.storage_options(**options)
    )


def _config(s3: StandIn) -> "S3Config":
    return cast("S3Config", s3.storage_options())  # its keys are spelled out there


def _paths(store: S3Store, prefix: str) -> list[str]:
    return [each["path"] for each in obstore.list(store, prefix).collect()]


# --- control objects --------------------------------------------------------------------------


def test_lance_guard_s3_create_if_absent_keeps_the_first_content(store: S3Store) -> None:
    """Why: leases, sidecars and claims are won by creating an object."""
    obstore.put(store, "a/b", b"first", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "a/b", b"second", mode="create")
    assert bytes(obstore.get(store, "a/b").bytes()) == b"first"


def test_lance_guard_s3_each_name_is_created_by_exactly_one_of_many(store: S3Store) -> None:
    """Why: everything that needs one winner is built from this call alone."""

    def won(claim: tuple[int, int]) -> bool:
        claimant, name = claim
        try:
            obstore.put(store, f"name-{name}", str(claimant).encode(), mode="create")
        except AlreadyExistsError:
            return False
        return True

    claims = [(claimant, name) for name in range(20) for claimant in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(won, claims))
    winners = [claim for claim, first in zip(claims, results, strict=True) if first]
    assert sorted(name for _, name in winners) == list(range(20))
    for claimant, name in winners:
        assert bytes(obstore.get(store, f"name-{name}").bytes()) == str(claimant).encode()


def test_lance_guard_s3_put_get_head_list_and_delete(store: S3Store) -> None:
    """Why: the whole surface of the adapter; paths are relative to the store's prefix."""
    obstore.put(store, "k/a", b"1")
    obstore.put(store, "k/a", b"22")
    obstore.put(store, "k/b/c", b"3")
    obstore.put(store, "kk", b"4")
    assert bytes(obstore.get(store, "k/a").bytes()) == b"22"
    assert obstore.head(store, "k/a")["size"] == 2
    assert _paths(store, "k") == ["k/a", "k/b/c"], "a prefix is a folder, not a string"
    obstore.delete(store, "k/a")
    assert _paths(store, "k") == ["k/b/c"]


def test_lance_guard_s3_a_missing_object_is_not_found_but_can_be_deleted(store: S3Store) -> None:
    """Why: on local files the same delete raises, so the adapter makes both alike."""
    with pytest.raises(FileNotFoundError):
        obstore.get(store, "absent")
    with pytest.raises(FileNotFoundError):
        obstore.head(store, "absent")
    obstore.delete(store, "absent")


def test_lance_guard_s3_has_a_compare_and_swap_that_local_files_lack(store: S3Store) -> None:
    """Why: it works here, so only the missing local form keeps the design from using it."""
    obstore.put(store, "a", b"1")
    seen = obstore.head(store, "a")["e_tag"]
    assert seen
    obstore.put(store, "a", b"2", mode={"e_tag": seen})
    with pytest.raises(PreconditionError):
        obstore.put(store, "a", b"3", mode={"e_tag": seen})
    assert bytes(obstore.get(store, "a").bytes()) == b"2"


@pytest.mark.parametrize("failure", [Failure.LOST_ANSWER, Failure.LOST_CONNECTION])
def test_lance_guard_s3_a_retried_create_takes_its_own_object_for_that_of_another(
    s3: StandIn, failure: Failure
) -> None:
    """Why: `AlreadyExists` does not mean that another won; the adapter must compare contents."""
    s3.fail(failure, times=1, kinds=[Kind.CREATE])
    store = s3.endpoint.store(max_retries=1)
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "a", b"mine", mode="create")
    assert bytes(obstore.get(store, "a").bytes()) == b"mine"


def test_lance_guard_s3_a_create_without_retries_says_that_the_outcome_is_unknown(
    s3: StandIn, store: S3Store
) -> None:
    """Why: without retries a lost acknowledgement is an error of its own, not a false loser."""
    s3.fail(Failure.LOST_ANSWER, times=1, kinds=[Kind.CREATE])
    with pytest.raises(GenericError):
        obstore.put(store, "a", b"mine", mode="create")
    assert bytes(obstore.get(store, "a").bytes()) == b"mine"


# --- tables -----------------------------------------------------------------------------------


def test_lance_guard_s3_a_table_is_created_once(s3: StandIn) -> None:
    """Why: the creation of the manifest is the single moment a graph begins."""
    _create(s3, rows("a"))
    with pytest.raises(OSError, match="Dataset already exists"):
        _create(s3, rows("b"))
    assert ids(_open(s3)) == ["a"]


def test_lance_guard_s3_two_concurrent_creations_have_one_winner(s3: StandIn) -> None:
    """Why: two processes may init one root, and both find it empty."""
    # Both have looked for a table before either writes its version.
    s3.delay_s = 0.05

    def won(name: str) -> str | None:
        try:
            _create(s3, rows(name))
        except OSError:
            return None
        return name

    with ThreadPoolExecutor(2) as pool:
        winners = [name for name in pool.map(won, ["a", "b"]) if name]
    assert len(winners) == 1
    assert ids(_open(s3)) == winners


def test_lance_guard_s3_staging_moves_no_head_and_commits_make_the_next_version(
    s3: StandIn,
) -> None:
    """Why: every write of the system is staged, then committed under our uuid."""
    table = _create(s3, rows("a", "b"))
    by = stamp()
    append = stage_append(table, rows("c"), by)
    assert _open(s3).version == 1
    table = commit(table, append)
    table = commit(table, stage_merge_insert(table, rows("a", "d", body="new")).transaction)
    table = commit(table, something(stage_delete(table, pc.field("id") == "b")))
    assert (table.version, ids(_open(s3))) == (4, ["a", "c", "d"])
    assert transaction_at(_open(s3), 2).uuid == by.uuid
    assert transaction_at(_open(s3), 2).transaction_properties == by.properties
    table = commit(table, stage_index(table, [inverted("body", "ix_body")]))
    assert search(_open(s3), "new") == ["a", "d"]
    table = commit(table, stage_overwrite(table, rows("z")))
    assert ids(_open(s3)) == ["z"]


def test_lance_guard_s3_a_late_upsert_conflicts_and_a_late_append_lands(s3: StandIn) -> None:
    """Why: the conflict matrix is the same; only the version check sees the second case."""
    table = _create(s3, rows("a"))
    upsert = stage_merge_insert(table, rows("a", body="late")).transaction
    append = stage_append(table, rows("late"))
    commit(table, stage_merge_insert(table, rows("a", body="first")).transaction)
    with pytest.raises(CommitConflictError):
        commit_anywhere(table, upsert)
    assert commit_anywhere(table, append).version == 3


def test_lance_guard_s3_two_publishes_from_one_version_have_one_winner(s3: StandIn) -> None:
    """Why: one `merge_insert` without retries makes data visible."""
    _create_manifest(s3)
    first, second = _open(s3), _open(s3)
    publish(first, manifest_rows(graph_head="one", one="genesis"))
    with pytest.raises(OSError, match="Too many concurrent writers") as rejected:
        publish(second, manifest_rows(graph_head="two", two="genesis"))
    assert not isinstance(rejected.value, CommitConflictError)
    assert objects(_open(s3)) == [("graph_head", "one"), ("one", "genesis")]


def test_lance_guard_s3_branches_are_isolated_listed_and_deleted(s3: StandIn) -> None:
    """Why: a graph branch is a branch of each of its tables."""
    table = _create(s3, rows("a"))
    forked = fork(table, "b-1", None, 1)
    forked = commit(forked, stage_append(forked, rows("on-branch")))
    second = fork(table, "b-2", "b-1", forked.version)
    commit(table, stage_append(table, rows("on-main")))
    assert ids(_open(s3)) == ["a", "on-main"]
    assert ids(_open(s3).checkout_version(("b-1", None))) == ["a", "on-branch"]
    assert ids(second) == ["a", "on-branch"]
    assert set(table.branches.list()) == {"b-1", "b-2"}
    table.branches.delete("b-2")
    assert set(table.branches.list()) == {"b-1"}


def test_lance_guard_s3_restore_shows_an_old_version_and_fences(s3: StandIn) -> None:
    """Why: recovery restores, and no writer that wakes up late may undo it."""
    table = _create(s3, rows("a"))
    table = commit(table, stage_append(table, rows("b")))
    late = stage_append(table, rows("late"))
    assert ids(restore(table, 1)) == ids(_open(s3)) == ["a"]
    with pytest.raises(CommitConflictError):
        commit_anywhere(table, late)


def test_lance_guard_s3_latest_version_of_an_old_handle_is_fresh(s3: StandIn) -> None:
    """Why: no process serves a head older than the start of the request."""
    writer = _create(s3, rows("a"))
    reader = _open(s3)
    assert reader.latest_version == 1
    commit(writer, stage_append(writer, rows("b")))
    assert (reader.version, reader.latest_version) == (1, 2)
    assert ids(reader) == ["a"]


@pytest.mark.parametrize("failure", [Failure.LOST_ANSWER, Failure.LOST_CONNECTION])
@pytest.mark.parametrize("retries", ["0", "1"])
def test_lance_guard_s3_a_commit_survives_a_lost_acknowledgement(
    s3: StandIn, failure: Failure, retries: str
) -> None:
    """Why: Lance reads the version back and knows its own uuid, so the commit happens once."""
    _create(s3, rows("a"))
    table = _open(s3, client_max_retries=retries)
    staged = stage_append(table, rows("b"))
    s3.fail(failure, times=1, kinds=[Kind.CREATE])
    assert commit(table, staged).version == 2
    assert ids(_open(s3)) == ["a", "b"]


def test_lance_guard_s3_a_publish_survives_a_lost_acknowledgement(s3: StandIn) -> None:
    """Why: the same for the one call that makes data visible."""
    _create_manifest(s3)
    line = _open(s3, **NO_RETRY)
    s3.fail(Failure.LOST_CONNECTION, times=1, kinds=[Kind.CREATE])
    publish(line, manifest_rows(graph_head="one", one="genesis"))
    assert objects(_open(s3)) == [("graph_head", "one"), ("one", "genesis")]
    assert _open(s3).version == 2


@pytest.mark.extended
@pytest.mark.timeout(300)
def test_lance_guard_s3_four_processes_publish_one_chain(s3: StandIn) -> None:
    """Why: exactly one wins in every round, also between processes; no commit is lost."""
    _create_manifest(s3)
    program = [sys.executable, "-m", "tests.s3.publisher", s3.uri("t")]
    writers = [
        subprocess.Popen(
            [*program, str(writer), "10"],
            cwd=_ROOT,
            env=os.environ | s3.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for writer in range(4)
    ]
    rejected = 0
    for writer in writers:
        output, errors = writer.communicate(timeout=240)
        assert writer.returncode == 0, errors
        rejected += int(output)
    assert rejected > 0, "the writers did meet"
    found = objects(_open(s3))
    parents = dict(found)
    assert len(found) == len(parents) == 41, "no key exists twice"
    chain, commit_id = [], parents["graph_head"]
    while commit_id != "genesis":
        chain.append(commit_id)
        commit_id = parents[commit_id]
    assert len(set(chain)) == len(chain) == 40


# --- what failures look like ------------------------------------------------------------------


def test_lance_guard_s3_a_missing_table_is_a_value_error(s3: StandIn) -> None:
    """Why: open tells "no graph here" from other failures, which have the same class, by text."""
    with s3.watching() as seen, pytest.raises(ValueError, match="was not found: Not found"):
        _open(s3)
    assert seen.kinds == {"list": 1}


def test_lance_guard_s3_a_listing_is_tried_six_times_whatever_the_error(s3: StandIn) -> None:
    """Why: a missing bucket costs seconds although nothing can change; no option turns it off."""
    options = s3.storage_options(lance_aimd_max_retries="0", **NO_RETRY)
    with s3.watching() as seen, pytest.raises(ValueError, match="NoSuchBucket"):
        lance.dataset("s3://missing/t", storage_options=options)
    assert seen.kinds == {"list": 6}


def test_lance_guard_s3_a_missing_bucket_is_not_found_for_objects_and_generic_for_lists(
    s3: StandIn,
) -> None:
    """Why: without a look at the text a missing bucket is taken for a missing object."""
    store = S3Store("missing", config=_config(s3))
    for call in (
        lambda: obstore.put(store, "a", b""),
        lambda: obstore.put(store, "a", b"", mode="create"),
        lambda: obstore.get(store, "a"),
        lambda: obstore.delete(store, "a"),
    ):
        with pytest.raises(FileNotFoundError, match="NoSuchBucket"):
            call()
    with pytest.raises(GenericError, match="NoSuchBucket"):
        obstore.list(store).collect()


def test_lance_guard_s3_read_only_credentials_read_and_writes_are_refused_at_once(
    s3: StandIn, store: S3Store
) -> None:
    """Why: `storage_denied` is told from the text, since Lance raises plain `OSError`."""
    obstore.put(store, "a", b"1")
    table = _create(s3, rows("a"))
    staged = stage_append(table, rows("b"))
    s3.access = Access.READ_ONLY
    assert ids(_open(s3)) == ["a"]
    assert bytes(obstore.get(store, "a").bytes()) == b"1"
    merge = table.merge_insert("id").when_not_matched_insert_all().conflict_retries(0)
    for call in (
        lambda: write_rows(table, rows("b")),
        lambda: commit(table, staged),
        lambda: merge.execute(rows("b")),
    ):
        with pytest.raises(OSError, match=r"(?s)lacked the necessary privileges.*403 Forbidden"):
            call()
    for write in (
        lambda: obstore.put(store, "b", b""),
        lambda: obstore.put(store, "b", b"", mode="create"),
        lambda: obstore.delete(store, "a"),
    ):
        with pytest.raises(PermissionDeniedError):
            write()
    assert _open(s3).version == 1


@pytest.mark.extended
def test_lance_guard_s3_refused_credentials_look_different_for_a_list(
    s3: StandIn, store: S3Store
) -> None:
    """Why: `PermissionDeniedError` is not raised by a list, nor its text by a Lance open."""
    _create(s3, rows("a"))
    s3.access = Access.NONE
    with pytest.raises(PermissionDeniedError):
        obstore.get(store, "a")
    with pytest.raises(GenericError, match="403 Forbidden"):
        obstore.list(store).collect()
    with pytest.raises(ValueError, match=r"Error performing list request: .* 403 Forbidden"):
        _open(s3, **NO_RETRY)


def test_lance_guard_s3_a_server_that_is_down_is_an_error_without_a_reason(
    s3: StandIn, store: S3Store
) -> None:
    """Why: refused, dropped and timed out all read the same; the message names the endpoint."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ValueError, match="HTTP error: error sending request"):
            _open(s3, 1, aws_endpoint_url=dead, **NO_RETRY)
    s3.fail(Failure.DROPPED)
    with pytest.raises(GenericError, match="HTTP error: error sending request"):
        obstore.get(store, "a")


# --- options ----------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [Failure.ERROR, Failure.UNAVAILABLE, Failure.DROPPED])
def test_lance_guard_s3_without_client_retries_a_request_is_tried_once(
    s3: StandIn, failure: Failure
) -> None:
    """Why: `client_max_retries` bounds the time of everything but a listing."""
    _create(s3, rows("a"))
    s3.fail(failure)
    with s3.watching() as seen, pytest.raises(ValueError, match="Generic S3 error"):
        _open(s3, 1, **NO_RETRY)
    assert len(seen) == 1


@pytest.mark.extended
def test_lance_guard_s3_client_retries_are_multiplied_by_those_of_the_throttle(
    s3: StandIn,
) -> None:
    """Why: the throttle takes exhausted retries for a slow-down and begins three times more."""
    _create(s3, rows("a"))
    s3.fail(Failure.ERROR)
    for options, tries in (({}, 8), ({"lance_aimd_max_retries": "0"}, 2)):
        with s3.watching() as seen, pytest.raises(ValueError, match="Generic S3 error"):
            _open(s3, 1, client_max_retries="1", **options)
        assert len(seen) == tries


def test_lance_guard_s3_the_retries_of_lance_can_be_set_in_the_environment(
    s3: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why: an operator sets them without a change of ours."""
    _create(s3, rows("a"))
    s3.fail(Failure.ERROR)
    monkeypatch.setenv("OBJECT_STORE_CLIENT_MAX_RETRIES", "1")
    monkeypatch.setenv("LANCE_AIMD_MAX_RETRIES", "0")
    with s3.watching() as seen, pytest.raises(ValueError, match="Generic S3 error"):
        _open(s3, 1)
    assert len(seen) == 2


@pytest.mark.parametrize("option", ["timeout", "read_timeout"])
def test_lance_guard_s3_lance_gives_up_after_the_timeout(s3: StandIn, option: str) -> None:
    """Why: a server that hangs must cost seconds; the value has a unit, `5s` and not `5`."""
    _create(s3, rows("a"))
    s3.delay_s = 30.0
    begun = perf_counter()
    with pytest.raises(ValueError, match="HTTP error: error sending request"):
        _open(s3, 1, **NO_RETRY, **{option: "100ms"})
    assert perf_counter() - begun < 20


def test_lance_guard_s3_lance_takes_the_timeout_from_the_environment(
    s3: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why: `AWS_TIMEOUT` reaches Lance through the same door as the credentials."""
    _create(s3, rows("a"))
    s3.delay_s = 30.0
    monkeypatch.setenv("AWS_TIMEOUT", "100ms")
    begun = perf_counter()
    with pytest.raises(ValueError, match="HTTP error: error sending request"):
        _open(s3, 1, **NO_RETRY)
    assert perf_counter() - begun < 20


def test_lance_guard_s3_lance_ignores_options_that_it_does_not_know(s3: StandIn) -> None:
    """Why: `request_timeout`, which documents name, is one of them; a typo is never reported."""
    _create(s3, rows("a"))
    s3.delay_s = 0.3
    assert _open(s3, 1, request_timeout="100ms", misspelled="x", **NO_RETRY).version == 1
    s3.delay_s = 0.0
    with pytest.raises(ValueError, match='failed to parse "5" as Duration'):
        _open(s3, 1, timeout="5")


@pytest.mark.extended
def test_lance_guard_s3_obstore_retries_a_timed_out_read_but_not_a_create(s3: StandIn) -> None:
    """Why: a create that timed out may have been performed."""
    store = S3Store(
        BUCKET,
        config=_config(s3),
        client_options={"timeout": "500ms"},
        retry_config={"max_retries": 1},
    )
    # Nobody waits so long, and what comes too late must not reach the bucket of another test.
    s3.delay_s = 20.0
    s3.fail(Failure.DROPPED)
    for call, tries in (
        (lambda: obstore.get(store, "a"), 2),
        (lambda: obstore.put(store, "a", b"", mode="create"), 1),
    ):
        with s3.watching() as seen:
            with pytest.raises(GenericError, match="error sending request"):
                call()
            _await(seen, tries)
        assert len(seen) == tries


def _await(seen: Seen, requests: int) -> None:
    """A client that gave up may be faster than the server, which still has to read."""
    until = perf_counter() + 30
    while len(seen) < requests and perf_counter() < until:
        sleep(0.01)


# --- requests ---------------------------------------------------------------------------------


def _cost(s3: StandIn, call: Callable[[], object]) -> dict[str, int]:
    with s3.watching() as seen:
        call()
    return dict(seen.kinds)


def test_lance_guard_s3_requests_of_control_objects(s3: StandIn, store: S3Store) -> None:
    """Why: each is one round trip."""
    assert _cost(s3, lambda: obstore.put(store, "a", b"", mode="create")) == {"create": 1}
    assert _cost(s3, lambda: obstore.put(store, "a", b"")) == {"put": 1}
    assert _cost(s3, lambda: obstore.get(store, "a").bytes()) == {"get": 1}
    assert _cost(s3, lambda: obstore.head(store, "a")) == {"head": 1}
    assert _cost(s3, lambda: obstore.list(store).collect()) == {"list": 1}
    assert _cost(s3, lambda: obstore.delete(store, ["a", "b"])) == {"delete": 1}


def test_lance_guard_s3_requests_of_reading(s3: StandIn) -> None:
    """Why: to ask for the head is one request, a pinned open two, a small fragment one."""
    table = _create(s3, rows("a"))
    table = commit(table, stage_append(table, rows("b")))
    table = commit(table, stage_append(table, rows("c")))
    assert _cost(s3, lambda: _open(s3)) == {"list": 1, "get": 1}
    assert _cost(s3, lambda: _open(s3, 2)) == {"head": 1, "get": 1}
    fresh = _open(s3)
    assert _cost(s3, lambda: fresh.latest_version) == {"list": 1}
    assert _cost(s3, fresh.to_table) == {"get": 3}
    assert _cost(s3, fresh.to_table) == {}, "small files stay in the handle's cache"


def test_lance_guard_s3_requests_of_writing(s3: StandIn) -> None:
    """Why: a staged file is one put; its commit is a list, the transaction and the version."""
    table = _create(s3, rows("a"))
    assert _cost(s3, lambda: write_rows(table, rows("b"))) == {"put": 1}
    staged = stage_append(table, rows("b"))
    assert _cost(s3, lambda: commit(table, staged)) == {"list": 1, "put": 1, "create": 1}


def test_lance_guard_s3_requests_of_a_publish(s3: StandIn) -> None:
    """Why: a publish on a handle that was read is four round trips and the fragments it joins."""
    _create_manifest(s3)
    line = _open(s3)
    objects(line)
    rows_of_one = manifest_rows(graph_head="one", one="genesis")
    assert _cost(s3, lambda: publish(line, rows_of_one)) == {"put": 2, "list": 1, "create": 1}
