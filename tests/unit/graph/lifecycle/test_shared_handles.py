"""Threads that read a table while another one makes and removes lines of it."""

import threading

from tests.unit.graph.graphs import Opened, upsert

_BRANCHES = 3


def test_readers_are_not_disturbed_by_forks_and_forks_not_by_readers(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, *(f"p{number}" for number in range(50)))
    failures: list[BaseException] = []
    is_over = threading.Event()

    def read() -> None:
        try:
            while not is_over.is_set():
                assert graph.snapshot().scan("Person").read_all().num_rows == 50
                graph.branches.list()
        except BaseException as error:  # noqa: BLE001 - the test tells of it
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(_BRANCHES):
            graph.branches.create(f"b{number}")
            upsert(graph, "more", branch=f"b{number}")
            assert graph.snapshot(branch=f"b{number}").count("Person") == 51
            graph.branches.delete(f"b{number}")
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert failures == []
