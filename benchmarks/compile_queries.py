"""How long compiling takes: a schema, one query, a file of a hundred, and a cold start.

Every figure stands beside a floor measured in the same run, so that ratios can be compared between
machines: `json.loads` of a document of the same size, and the grammar alone without checks or
lowering. `--check FILE` fails when a ratio is worse than the stored one by more than `--tolerance`.
"""

import argparse
import cProfile
import gc
import json
import pstats
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter

from lark import Lark

from omnigraph.lang import compile_parsed, compile_query, compile_schema, grammar, parse_query_file
from omnigraph.lang.diagnostics import Findings
from omnigraph.lang.source import Source

TARGET_MS = 2.0
SCHEMA = """
interface Named { name: String @index  aliases: [String]? }
node Author implements Named {
  handle: String @key  email: String? @unique  active_since: Date  h_index: U32?
  is_active: Bool @default(true)  @check(handle, "^[a-z]+") @range(h_index, ..300)
}
node Institution implements Named { slug: String @key  country: String @index  founded: I32? }
node Topic implements Named { slug: String @key  scope: String? }
node Paper {
  slug: String @key  title: String @index  abstract: String @index  published: Date
  status: enum(preprint, published, retracted) @default("preprint")  pages: U32?
  review_score: F64?  revised_at: DateTime?  keywords: [String]?
  embedding: Vector(4) @embed(abstract, model="mock") @index
  @range(pages, 1..) @range(review_score, 0.0..10.0) @index(published, status)
}
edge AffiliatedWith: Author -> Institution @card(1..3) { since: Date  role: enum(faculty, student) }
edge CoauthorOf: Author -> Author { papers: U32  @unique(src, dst) }
edge Wrote: Author -> Paper { position: U32  @unique(src, dst) @index(position) }
edge HasTopic: Paper -> Topic @card(1..3) { weight: F64 }
edge Cites: Paper -> Paper { intent: enum(background, uses, extends)  context: String? }
edge SubtopicOf: Topic -> Topic @card(0..1)
"""
TYPICAL = """
query q#($handle: String, $since: Date) @description("Recent papers of an author") {
  match {
    $a: Author { handle: $handle }
    $a $w:wrote $p
    $p hasTopic $t
    $p.published >= $since
    $p.status != "retracted"
    not { $p cites $p }
  }
  return { $p.slug, $p.title, $p.published, $w.position, $t.name as topic }
  order { $p.published desc, $p.slug }
  limit 50
}
"""
SHAPES = (
    """query q#($slug: String) {
  match { $p: Paper { slug: $slug } }
  return { $p.title, $p.abstract, $p.published, $p.status, $p.keywords }
}
""",
    TYPICAL,
    """query q#($handle: String) {
  match {
    $a: Author { handle: $handle }
    $a <coauthorOf>{2,2} $b
    $b affiliatedWith $i
    not { $a wrote $p  $b wrote $p }
  }
  return { $b.handle, $b.name, $i.country }
  order { $b.handle }
  limit 20
}
""",
    """query q#($q: String) {
  match { $p: Paper  search($p.abstract, $q)  $p.published > date("2020-01-01") }
  return { $p.slug, rrf(nearest($p.embedding, $q), bm25($p.abstract, $q)) as score }
  order { score desc }
  limit 10
}
""",
    """query q#() {
  match { $a: Author  $a wrote $p  $p hasTopic $t }
  return { $t.slug, count($p) as papers, avg($p.review_score) as score, max($p.pages) as longest }
  order { papers desc, $t.slug }
}
""",
    """query q#($slug: String) {
  match { $p: Paper { slug: $slug }  $p cites{1,3} $x  $y cites $x  $y.pages > $p.pages }
  return { $x.slug, $x.title, count($y) as citing }
  order { citing desc }
  limit 50
}
""",
    """query q#($slug: String, $title: String, $author: String) {
  insert Paper {
    slug: $slug, title: $title, abstract: "…", published: date("2024-05-01"), revised_at: now()
  }
  insert Wrote { from: $author, to: $slug, position: 1 }
}
""",
    """query q#($slug: String) {
  update Paper set { status: "retracted", revised_at: now() } where slug = $slug
}
""",
    """query q#($before: Date) { delete Paper where published < $before }
""",
    """query q#($v: Vector(4)) {
  match { $p: Paper { status: "published" } }
  return { $p.slug, nearest($p.embedding, $v) as distance }
  order { distance }
  limit 5
}
""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured thing, in milliseconds, and how often slower than its floor it is."""

    name: str
    median_ms: float
    p95_ms: float
    floor: str
    ratio: float


def query_file(count: int) -> str:
    """A file of that many queries, every shape in turn."""
    shapes = islice(cycle(SHAPES), count)
    return "\n".join(shape.replace("#", str(number)) for number, shape in enumerate(shapes))


def bare_parser(name: str) -> Lark:
    """The grammar alone, as the compilers build it."""
    return Lark.open(
        name,
        rel_to=grammar.__file__,
        parser="lalr",
        lexer="contextual",
        propagate_positions=True,
        maybe_placeholders=False,
    )


def json_like(text: str) -> str:
    """A JSON document of about the size of a text, with as much structure as a source has."""
    row = {"name": "value", "kind": ["a", "b", 1, 2.5], "filter": {"left": "x", "op": "eq"}}
    rows = max(1, len(text) // (len(json.dumps(row)) + 2))
    return json.dumps([row] * rows)


def measure(work: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Median and 95th percentile in milliseconds, the collector off, after some warm-up."""
    for _ in range(max(3, rounds // 10)):
        work()
    taken: list[float] = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            started = perf_counter()
            work()
            taken.append((perf_counter() - started) * 1000)
    finally:
        gc.enable()
    taken.sort()
    return statistics.median(taken), taken[min(len(taken) - 1, int(len(taken) * 0.95))]


def measure_cold(rounds: int) -> tuple[float, float]:
    """A fresh interpreter: import, build the query grammar, compile one query."""
    script = (
        "from time import perf_counter; started = perf_counter()\n"
        "from omnigraph.lang import compile_query, compile_schema\n"
        "catalog = compile_schema('node A { x: I32 }')\n"
        "compile_query(catalog, 'query q() { match { $a: A } return { $a.x } }')\n"
        "print((perf_counter() - started) * 1000)"
    )
    command = [sys.executable, "-c", script]
    taken = sorted(
        float(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        for _ in range(rounds)
    )
    return statistics.median(taken), taken[-1]


def run(rounds: int) -> list[Figure]:
    catalog = compile_schema(SCHEMA)
    typical, hundred = TYPICAL.replace("#", "0"), query_file(100)
    hundred_rounds = max(5, rounds // 40)

    def compile_hundred() -> None:
        findings = Findings(Source.decode(hundred))
        for query in parse_query_file(hundred):
            if compile_parsed(catalog, query, findings) is None:
                raise RuntimeError(f"query {query.name} of the benchmark does not compile")

    def floors(text: str, times: int) -> tuple[float, float]:
        document = json_like(text)
        parser = bare_parser("schema.lark" if text is SCHEMA else "query.lark")
        loads, _ = measure(lambda: json.loads(document), times)
        bare, _ = measure(lambda: parser.parse(text), times)
        return loads, bare

    figures: list[Figure] = []

    def record(name: str, taken: tuple[float, float], floor: str, floor_ms: float) -> None:
        median, p95 = taken
        figures.append(
            Figure(name=name, median_ms=median, p95_ms=p95, floor=floor, ratio=median / floor_ms)
        )

    for name, text, work, times in (
        ("schema", SCHEMA, lambda: compile_schema(SCHEMA), rounds // 4),
        ("one query", typical, lambda: compile_query(catalog, typical), rounds),
        ("100 queries", hundred, compile_hundred, hundred_rounds),
    ):
        loads, bare = floors(text, times)
        taken = measure(work, times)
        record(name, taken, "bare parse", bare)
        record(f"{name}, bare parse", (bare, bare), "json.loads", loads)
    median, p95 = measure(compile_hundred, hundred_rounds)
    one = next(item.median_ms for item in figures if item.name == "one query")
    record("per query of 100", (median / 100, p95 / 100), "one query", one)
    build = measure(lambda: bare_parser("query.lark"), max(5, rounds // 40))
    record("build the query grammar", build, "one query", one)
    record("cold start", measure_cold(max(3, rounds // 100)), "one query", one)
    return figures


def show(figures: list[Figure]) -> None:
    print(f"{'':24}{'median':>10}{'p95':>10}   ratio")
    for item in figures:
        print(
            f"{item.name:24}{item.median_ms:8.2f}ms{item.p95_ms:8.2f}ms"
            f"{item.ratio:8.1f} x {item.floor}"
        )


def failures(figures: list[Figure], stored: Path, tolerance: float) -> list[str]:
    """Ratios that are worse than the stored ones allow."""
    known = {item["name"]: item["ratio"] for item in json.loads(stored.read_text())}
    return [
        f"{item.name}: {item.ratio:.2f} x {item.floor}, stored {known[item.name]:.2f}"
        for item in figures
        if item.name in known and item.ratio > known[item.name] * tolerance
    ]


def profile(rounds: int) -> None:
    """Where the time of a warm compile goes."""
    catalog, text = compile_schema(SCHEMA), TYPICAL.replace("#", "0")
    compile_query(catalog, text)
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(rounds):
        compile_query(catalog, text)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=400, help="measurements of the warm figures")
    parser.add_argument("--save", type=Path, help="write the figures to a file")
    parser.add_argument("--check", type=Path, help="fail against the figures of a file")
    parser.add_argument("--tolerance", type=float, default=1.5, help="how much worse may pass")
    parser.add_argument("--target", action="store_true", help=f"fail above {TARGET_MS} ms a query")
    parser.add_argument("--profile", action="store_true", help="print a profile instead")
    arguments = parser.parse_args()
    if arguments.profile:
        profile(arguments.rounds)
        return 0
    figures = run(arguments.rounds)
    show(figures)
    if arguments.save:
        arguments.save.write_text(json.dumps([asdict(item) for item in figures], indent=2) + "\n")
    problems = failures(figures, arguments.check, arguments.tolerance) if arguments.check else []
    one = next(item.median_ms for item in figures if item.name == "one query")
    if arguments.target and one > TARGET_MS:
        problems.append(f"one query: {one:.2f} ms, the target is {TARGET_MS} ms")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
