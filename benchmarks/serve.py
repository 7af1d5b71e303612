"""What HTTP adds to a query, and how many queries a second a server answers.

The same warm point query, in-process and over HTTP, in alternation in one run: the difference of
the medians is the overhead. Then 16 clients ask as fast as they get answers, of a server with one
worker and with two. The clients are those of `wrk`, which take little of the machine; where it is
not installed they are Python processes, and on few cores they take much of the server's time.
`--target` fails when the overhead is above 1.5 ms, or two workers give less than 1.7 times one. (A
script named `http` would hide the standard library's package from others.)
"""

import argparse
import contextlib
import http.client
import json
import multiprocessing
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SCHEMA = "node Person { name: String @key  age: I64? }"
QUERY = "query one($n: String) { match { $p: Person { name: $n } } return { $p.name, $p.age } }"
BODY = json.dumps({"query": QUERY, "params": {"n": "p500"}}).encode()
HEADERS = {"Content-Type": "application/json"}
PATH = "/graphs/default/query"
MOST_OVERHEAD_MS = 1.5
LEAST_GAIN = 1.7


def build(path: Path) -> None:
    from omnigraph import Graph  # not at the top: clients start quickly without it

    lines = [
        json.dumps({"type": "Person", "data": {"name": f"p{number}", "age": number}})
        for number in range(1_000)
    ]
    with Graph.init(path, schema=SCHEMA) as graph:
        graph.load("\n".join(lines).encode(), mode="append")


@contextlib.contextmanager
def serving(path: Path, workers: int) -> Iterator[str]:
    """The address of a server, which ends with the block."""
    program = Path(sys.executable).with_name("omnigraph-server")
    options = ["--unauthenticated", "--no-maintenance", "--bind", "127.0.0.1:0"]
    process = subprocess.Popen(
        [program, str(path), *options, "--workers", str(workers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        yield process.stdout.readline().strip().partition("=")[2]
    finally:
        process.terminate()
        process.communicate()


def ask(connection: http.client.HTTPConnection) -> None:
    connection.request("POST", PATH, BODY, HEADERS)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != http.client.OK:
        raise SystemExit(content.decode())


def measure_overhead(path: Path, rounds: int) -> tuple[float, float]:
    """The medians in-process and over HTTP, in milliseconds."""
    from omnigraph import Graph

    alone, served = [], []
    with serving(path, 1) as address, Graph.open(path, mode="read_only") as graph:
        connection = http.client.HTTPConnection(address)
        for number in range(rounds + 50):
            started = time.perf_counter()
            graph.query(QUERY, params={"n": "p500"})
            between = time.perf_counter()
            ask(connection)
            ended = time.perf_counter()
            if number >= 50:  # both are warm
                alone.append(between - started)
                served.append(ended - between)
        connection.close()
    return statistics.median(alone) * 1_000, statistics.median(served) * 1_000


def count_answers(address: str, seconds: float, counts: "multiprocessing.Queue[int]") -> None:
    connection = http.client.HTTPConnection(address)
    for _ in range(20):
        ask(connection)
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        ask(connection)
        count += 1
    counts.put(count)


def measure_throughput(path: Path, workers: int, clients: int, seconds: float) -> float:
    """Answers per second."""
    wrk = shutil.which("wrk")
    with serving(path, workers) as address:
        if wrk is None:
            return ask_from_processes(address, clients, seconds)
        script = path.with_name("ask.lua")
        script.write_text(
            f"wrk.method = 'POST'\nwrk.body = '{BODY.decode()}'\n"
            f"wrk.headers['Content-Type'] = 'application/json'\n"
        )
        ask_by_wrk(wrk, script, address, clients, 1)
        return ask_by_wrk(wrk, script, address, clients, seconds)


def ask_by_wrk(wrk: str, script: Path, address: str, clients: int, seconds: float) -> float:
    words = ["-t", "1", "-c", str(clients), "-d", f"{seconds:.0f}s", "-s", str(script)]
    done = subprocess.run(
        [wrk, *words, f"http://{address}{PATH}"], capture_output=True, text=True, check=True
    )
    told = re.search(r"^Requests/sec: +([0-9.]+)$", done.stdout, re.MULTILINE)
    if told is None or "Non-2xx" in done.stdout:
        raise SystemExit(done.stdout)
    return float(told[1])


def ask_from_processes(address: str, clients: int, seconds: float) -> float:
    context = multiprocessing.get_context("spawn")  # Lance is not to be forked
    counts: multiprocessing.Queue[int] = context.Queue()
    asking = [
        context.Process(target=count_answers, args=(address, seconds, counts))
        for _ in range(clients)
    ]
    for process in asking:
        process.start()
    total = sum(counts.get() for _ in asking)
    for process in asking:
        process.join()
    return total / seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=500, help="queries of each kind")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--target", action="store_true", help="fail when a bound is missed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.omni"
        build(path)
        alone, served = measure_overhead(path, options.rounds)
        rates = [
            measure_throughput(path, workers, options.clients, options.seconds)
            for workers in (1, 2)
        ]
    print(f"{'warm point query':32} {'median':>10}")
    print(f"{'in-process':32} {alone:>7.2f} ms")
    print(f"{'over HTTP':32} {served:>7.2f} ms")
    print(f"{'overhead':32} {served - alone:>7.2f} ms")
    print(f"{'1 worker':32} {rates[0]:>7.0f} /s")
    print(f"{'2 workers':32} {rates[1]:>7.0f} /s  {rates[1] / rates[0]:.2f} x")
    misses = served - alone > MOST_OVERHEAD_MS or rates[1] < LEAST_GAIN * rates[0]
    return int(options.target and misses)


if __name__ == "__main__":
    sys.exit(main())
