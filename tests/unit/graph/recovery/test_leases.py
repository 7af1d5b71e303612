"""Write leases: one holder per scope, epochs that never repeat, and the rules of expiry."""

import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.graph.graphs import Opened, Watcher, quick

from omnigraph.clock import ManualClock, SystemClock
from omnigraph.errors import (
    BranchBusy,
    InvalidArgument,
    StorageUnavailable,
    StorageVersionTooNew,
)
from omnigraph.failpoints import armed
from omnigraph.graph.manifest.pauses import Pauses
from omnigraph.graph.recovery.leases import Lease, LeaseLost, Leases, branch_scope
from omnigraph.graph.recovery.process_identity import ProcessIdentity, this_process
from omnigraph.ids import BranchId, UlidSource
from omnigraph.storage.calls import StoreCall

SCOPE = "branch-main"
TTL_MS = 15_000
HERE = this_process()


class _Steps(Pauses):
    """Pauses that move the manual clock instead of waiting."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(UlidSource(clock))
        self._clock = clock
        self.taken = 0

    def _sleep(self, longest_ms: int) -> None:
        self.taken += 1
        self._clock.advance(ms=longest_ms)


class Site:
    """Processes that compete for the leases of one root, on one manual clock."""

    def __init__(self, graphs: Opened) -> None:
        graphs.root.mkdir()
        self.root = graphs.root
        self.graphs = graphs
        self.clock = ManualClock(now_us=1_794_765_848_000_000)
        self._made = ExitStack()

    def process(
        self,
        identity: ProcessIdentity = HERE,
        *,
        linger_ms: int = 0,
        watcher: Watcher | None = None,
        real_time: bool = False,
        **env: str,
    ) -> Leases:
        clock = SystemClock() if real_time else self.clock
        leases = Leases(
            self.graphs.storage(observer=watcher).objects,
            clock,
            UlidSource(clock),
            Pauses(UlidSource(clock)) if real_time else _Steps(self.clock),
            quick(**env).storage,
            identity,
            linger_ms=linger_ms,
        )
        self._made.callback(leases.close)
        return leases

    def epochs(self) -> list[int]:
        found = (self.root / "__leases" / SCOPE).glob("*.json")
        return sorted(int(path.stem) for path in found)

    def body(self, epoch: int) -> dict[str, object]:
        content: dict[str, object] = json.loads(self.path(epoch).read_bytes())
        return content

    def path(self, epoch: int) -> Path:
        return self.root / "__leases" / SCOPE / f"{epoch:012d}.json"

    def waiters(self) -> list[Path]:
        return list((self.root / "__leases").rglob("wait-*"))

    def close(self) -> None:
        self._made.close()


@pytest.fixture
def site(graphs: Opened) -> Iterator[Site]:
    made = Site(graphs)
    yield made
    made.close()


def take(leases: Leases, *, wait_ms: int = 0) -> Lease:
    return leases.acquire(SCOPE, wait_ms=wait_ms)


def test_scopes_are_named_after_branches() -> None:
    assert branch_scope(BranchId("main")) == SCOPE


def test_a_held_lease_is_busy_for_others_and_free_when_released(site: Site) -> None:
    first, second = site.process(), site.process()
    lease = take(first)
    with pytest.raises(BranchBusy, match="branch-main") as caught:
        take(second)
    assert caught.value.details == {"scope": SCOPE}
    lease.release()
    assert take(second).epoch == lease.epoch + 1
    assert site.body(1)["released"] is True


def test_an_object_says_who_holds_the_lease(site: Site) -> None:
    leases = site.process()
    take(leases)
    assert site.body(1) == {
        "format": 1,
        "owner": leases.owner,
        **HERE.to_dict(),
        "beat": 0,
        "renewed_at": site.clock.now_us(),
        "ttl_ms": TTL_MS,
        "released": False,
    }


def test_scopes_do_not_disturb_each_other(site: Site) -> None:
    leases = site.process()
    with leases.holding("schema"), leases.holding(SCOPE) as lease:
        lease.check()


def test_epochs_never_repeat_and_old_ones_are_tidied(site: Site) -> None:
    processes = [site.process(), site.process()]
    seen = []
    for number in range(20):
        with processes[number % 2].holding(SCOPE) as lease:
            seen.append(lease.epoch)
        assert site.epochs()[-1] == lease.epoch
        assert len(site.epochs()) <= 6
    assert seen == list(range(1, 21))


def test_a_lease_is_free_at_once_when_its_process_of_this_machine_is_gone(site: Site) -> None:
    take(site.process(replace(HERE, pid_started="1")))
    assert take(site.process()).epoch == 2


@pytest.mark.parametrize(
    "holder",
    [
        HERE,
        replace(HERE, host="elsewhere", pid_started="1"),
        replace(HERE, boot_id="other", pid_started="1"),
        replace(HERE, boot_id="", pid_started="1"),
    ],
    ids=["lives", "other host", "other boot", "unknown boot"],
)
def test_a_process_that_cannot_be_known_gone_keeps_its_lease(
    site: Site, holder: ProcessIdentity
) -> None:
    take(site.process(holder))
    with pytest.raises(BranchBusy):
        take(site.process())


def test_a_lease_seen_unchanged_for_a_whole_ttl_is_expired(site: Site) -> None:
    take(site.process())
    watcher = site.process()
    with pytest.raises(BranchBusy):
        take(watcher)
    site.clock.advance(ms=TTL_MS - 1)
    with pytest.raises(BranchBusy):
        take(watcher)
    site.clock.advance(ms=1)
    assert take(watcher).epoch == 2


def test_time_before_the_first_sighting_does_not_count(site: Site) -> None:
    take(site.process())
    site.clock.advance(ms=5 * TTL_MS)
    with pytest.raises(BranchBusy):
        take(site.process())


def test_a_renewal_starts_the_time_of_its_observers_again(site: Site) -> None:
    holder, watcher = site.process(), site.process()
    lease = take(holder)
    for _ in range(4):
        with pytest.raises(BranchBusy):
            take(watcher)
        site.clock.advance(ms=TTL_MS // 2)
        holder._renew(lease)
    assert lease.beat == 4
    assert site.body(1)["beat"] == 4
    lease.check()


def test_the_time_of_a_wall_clock_counts_only_after_ten_minutes(site: Site) -> None:
    take(site.process())
    start = site.clock.now_us()
    site.clock.jump_to(now_us=start + 600_000_000)
    with pytest.raises(BranchBusy):
        take(site.process())
    site.clock.jump_to(now_us=start + 600_000_001)
    assert take(site.process()).epoch == 2


def test_a_waiter_takes_the_lease_when_it_expires_and_leaves_no_note(site: Site) -> None:
    take(site.process())
    assert take(site.process(), wait_ms=2 * TTL_MS).epoch == 2
    assert site.waiters() == []


def test_a_waiter_gives_up_after_its_time_and_leaves_no_note(site: Site) -> None:
    take(site.process())
    start = site.clock.monotonic_us()
    with pytest.raises(BranchBusy):
        take(site.process(), wait_ms=3_000)
    assert 3_000_000 <= site.clock.monotonic_us() - start <= 3_200_000
    assert site.waiters() == []


def test_a_waiter_announces_itself_while_it_waits(site: Site) -> None:
    take(site.process())
    noted: list[int] = []
    watcher = Watcher()
    watcher.before_each = lambda call: (
        noted.append(len(site.waiters())) if call.operation == "list" else None
    )
    with pytest.raises(BranchBusy):
        take(site.process(watcher=watcher), wait_ms=1_000)
    assert noted[0] == 0
    assert set(noted[1:]) == {1}


def test_of_two_that_take_a_free_lease_one_gets_it(site: Site) -> None:
    """The second lists before the first creates, and creates after it."""
    first, watcher = site.process(), Watcher()
    taken: list[Lease] = []

    def overtake(call: StoreCall) -> None:
        if call.operation == "create" and not taken:
            taken.append(take(first))

    watcher.before_each = overtake
    with pytest.raises(BranchBusy):
        take(site.process(watcher=watcher))
    taken[0].check()
    assert site.epochs() == [1]


def test_a_holder_stops_trusting_its_lease_before_others_may_take_it(site: Site) -> None:
    lease = take(site.process())
    site.clock.advance(ms=TTL_MS * 2 // 3)
    lease.check()
    site.clock.advance(us=1)
    with pytest.raises(LeaseLost, match="renewed"):
        lease.check()


def test_a_lease_that_is_too_old_is_not_renewed_any_more(site: Site) -> None:
    holder = site.process()
    lease = take(holder)
    site.clock.advance(ms=TTL_MS * 2 // 3 + 1)
    holder._renew(lease)
    assert lease.beat == 0
    with pytest.raises(LeaseLost):
        lease.check()


def test_a_young_lease_is_not_renewed_yet(site: Site) -> None:
    holder = site.process()
    lease = take(holder)
    site.clock.advance(ms=TTL_MS // 4 - 1)
    holder._renew(lease)
    assert lease.beat == 0


def test_a_holder_loses_its_lease_to_a_higher_epoch(site: Site) -> None:
    lease = take(site.process())
    site.path(2).write_bytes(site.path(1).read_bytes())
    with pytest.raises(LeaseLost, match="epoch 2"):
        lease.check()
    lease.release()
    with pytest.raises(BranchBusy):
        take(site.process())


def test_a_late_renewal_cannot_undo_a_release(site: Site) -> None:
    holder = site.process()
    lease = take(holder)
    site.clock.advance(ms=TTL_MS // 2)
    with armed("lease.release", lambda: holder._renew(lease)):
        lease.release()
    holder._renew(lease)
    assert site.body(1)["released"] is True
    lease.release()


def test_a_renewal_that_fails_leaves_the_holder_to_find_out(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    watcher = Watcher()
    holder = site.process(watcher=watcher)
    lease = take(holder)
    site.clock.advance(ms=TTL_MS // 2)
    for error in (OSError("gone"), PermissionError("no"), ValueError("odd")):
        watcher.fail("put", "__leases", error)
        with caplog.at_level(logging.WARNING):
            holder._renew(lease)
        assert "lease not renewed" in caplog.messages
        caplog.clear()
    watcher.before_each = None
    lease.check()
    site.clock.advance(ms=TTL_MS // 2)
    with pytest.raises(LeaseLost):
        lease.check()


@pytest.mark.parametrize("error", [OSError("gone"), PermissionError("no"), ValueError("odd")])
def test_a_release_that_fails_does_not_fail_what_was_done(
    site: Site, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    watcher = Watcher()
    with caplog.at_level(logging.WARNING), site.process(watcher=watcher).holding(SCOPE):
        watcher.fail("put", "__leases", error)
    assert "lease not released" in caplog.messages


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format":1}'])
def test_a_damaged_lease_expires_by_observation(site: Site, content: bytes) -> None:
    take(site.process())
    site.path(1).write_bytes(content)
    assert take(site.process(), wait_ms=2 * TTL_MS).epoch == 2


def test_a_lease_of_a_later_release_is_refused(site: Site) -> None:
    take(site.process())
    site.path(1).write_text(json.dumps(site.body(1) | {"format": 2}))
    with pytest.raises(StorageVersionTooNew):
        take(site.process(), wait_ms=2 * TTL_MS)


def test_closing_releases_what_is_kept_and_is_safe_twice(site: Site) -> None:
    leases = site.process(linger_ms=2_000)
    with leases.holding(SCOPE):
        pass
    assert site.body(1)["released"] is False
    leases.close()
    leases.close()
    assert take(site.process()).epoch == 2


def test_closing_leaves_a_write_under_way_its_lease_and_refuses_the_next(site: Site) -> None:
    leases = site.process()
    with leases.holding(SCOPE) as lease:
        leases.close()
        lease.check()
        assert site.body(1)["released"] is False
    assert site.body(1)["released"] is True
    with pytest.raises(LeaseLost):
        lease.check()
    with pytest.raises(InvalidArgument, match="closed"), leases.holding(SCOPE):
        pass


def test_an_interrupt_while_a_lease_is_taken_leaves_it_free(site: Site) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with armed("lease.post_create", interrupt), pytest.raises(KeyboardInterrupt):
        take(site.process())
    holder = site.process()
    for _ in range(6):
        take(holder).release()
    watcher = Watcher()
    interrupted = site.process(watcher=watcher)

    def stop(call: StoreCall) -> None:
        if call.operation == "delete":
            raise KeyboardInterrupt

    watcher.before_each = stop
    for _ in range(6):
        with suppress(KeyboardInterrupt):
            take(interrupted).release()
    assert take(holder).epoch > 7


def test_a_block_that_fails_releases_its_lease(site: Site) -> None:
    with pytest.raises(KeyError), site.process().holding(SCOPE):
        raise KeyError
    assert site.body(1)["released"] is True


def test_threads_of_one_process_take_turns(site: Site) -> None:
    leases = site.process(real_time=True)
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(5):
            with leases.holding(SCOPE):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 20
    assert set(most) == {1}


def test_a_thread_that_gets_no_turn_is_told_that_the_branch_is_busy(site: Site) -> None:
    leases = site.process()
    with leases.holding(SCOPE), pytest.raises(BranchBusy), leases.holding(SCOPE, wait_ms=1):
        pytest.fail("two holders")


def test_the_renewer_renews_what_is_held(site: Site) -> None:
    leases = site.process(LEASE_TTL_MS="30")
    renewed = threading.Event()
    with leases.holding(SCOPE) as lease, armed("lease.renew", renewed.set):
        for _ in range(4):
            site.clock.advance(ms=15)
            assert renewed.wait(30)
            renewed.clear()
        assert lease.beat >= 3


def test_a_kept_lease_is_used_again_without_a_new_epoch(site: Site) -> None:
    leases = site.process(linger_ms=2_000)
    for _ in range(3):
        with leases.holding(SCOPE) as lease:
            assert lease.epoch == 1
    assert site.body(1)["released"] is False
    with pytest.raises(BranchBusy):
        take(site.process())


def test_a_lease_is_not_kept_when_somebody_waits(site: Site) -> None:
    leases = site.process(linger_ms=2_000)
    with leases.holding(SCOPE):
        (site.root / "__leases" / SCOPE / "wait-01J").write_bytes(b"")
    assert site.body(1)["released"] is True


def test_a_lease_is_not_kept_when_it_is_lost(site: Site) -> None:
    leases = site.process(linger_ms=2_000)
    with leases.holding(SCOPE) as lease:
        site.clock.advance(ms=TTL_MS)
    assert lease.is_released
    with leases.holding(SCOPE) as again:
        assert again.epoch == 2


def test_a_kept_lease_that_was_lost_meanwhile_is_taken_anew(site: Site) -> None:
    leases = site.process(linger_ms=2_000)
    with leases.holding(SCOPE):
        pass
    site.clock.advance(ms=TTL_MS)
    with leases.holding(SCOPE) as lease:
        assert lease.epoch == 2


def test_a_kept_lease_is_given_up_when_its_time_is_over(site: Site) -> None:
    leases = site.process(linger_ms=2_000)
    with leases.holding(SCOPE) as lease:
        pass
    site.clock.advance(ms=1_999)
    leases._end_linger(lease, leases._lingering[SCOPE])
    assert not lease.is_released
    released = threading.Event()
    with armed("lease.release", released.set):
        site.clock.advance(ms=1)
        assert released.wait(30)
    leases.close()
    assert site.body(1)["released"] is True


def test_a_kept_lease_is_given_up_to_a_waiter(site: Site) -> None:
    leases = site.process(linger_ms=2_000)
    released = threading.Event()
    with leases.holding(SCOPE):
        pass
    with armed("lease.release", released.set):
        (site.root / "__leases" / SCOPE / "wait-01J").write_bytes(b"")
        assert released.wait(30)
    leases.close()
    assert site.body(1)["released"] is True


def test_a_kept_lease_that_a_writer_has_resumed_is_not_ended_under_it(site: Site) -> None:
    leases = site.process(linger_ms=2_000)
    with leases.holding(SCOPE):
        pass
    until_us = leases._lingering[SCOPE]
    with leases.holding(SCOPE) as lease:
        site.clock.advance(ms=3_000)
        leases._end_linger(lease, until_us)
        lease.check()


def test_a_kept_lease_goes_to_a_process_that_waits_for_it(site: Site) -> None:
    keeper, other = site.process(linger_ms=60_000, real_time=True), site.process(real_time=True)
    with keeper.holding(SCOPE):
        pass
    assert take(other, wait_ms=10_000).epoch == 2


def test_a_failing_store_does_not_leave_a_kept_lease_held_for_ever(site: Site) -> None:
    watcher = Watcher()
    leases = site.process(linger_ms=2_000, watcher=watcher)
    with leases.holding(SCOPE):
        pass
    watcher.fail("list", "__leases", OSError("gone"))
    with pytest.raises(StorageUnavailable), leases.holding(SCOPE, wait_ms=0):
        pytest.fail("the store does not answer")
    watcher.before_each = None
    take(site.process(), wait_ms=TTL_MS // 3)


def _announce(site: Site) -> Path:
    path = site.root / "__leases" / SCOPE / "wait-01J00000000000000000000000"
    path.touch()
    return path


def test_who_had_the_lease_last_lets_a_waiter_go_first(site: Site) -> None:
    holder = site.process(real_time=True)
    take(holder).release()
    _announce(site)
    with pytest.raises(BranchBusy):
        take(holder)
    assert take(holder, wait_ms=30_000).epoch == 2, "a waiter that does not come is not waited for"


def test_a_waiter_of_long_ago_counts_for_nobody_and_is_tidied_away(site: Site) -> None:
    holder = site.process(real_time=True)
    take(holder).release()
    forgotten = _announce(site)
    os.utime(forgotten, (1_000_000, 1_000_000))
    for _ in range(6):
        take(holder).release()
    assert not forgotten.exists()


def test_a_lease_whose_release_was_lost_is_free_for_its_own_process(site: Site) -> None:
    watcher = Watcher()
    holder = site.process(watcher=watcher)
    lease = take(holder)
    watcher.fail("put", "__leases", OSError("gone"))
    lease.release()
    assert site.body(1)["released"] is False
    with pytest.raises(BranchBusy):
        take(site.process())
    assert take(holder).epoch == 2


def test_a_lease_of_which_only_the_answer_was_lost_is_given_back(site: Site) -> None:
    def lose(call: StoreCall) -> None:
        if call.operation == "create":
            raise OSError("no answer")

    watcher = Watcher()
    watcher.after_each = lose
    with pytest.raises(StorageUnavailable):
        take(site.process(watcher=watcher))
    assert site.body(1)["released"] is True
    assert take(site.process()).epoch == 2
