"""The sample domain `examples/papers`: the generator keeps every promise of its schema.

The rules below are written out by hand from `schema.pg`, so that generator and compiler are checked
against a third reading and not against each other.
"""

import importlib.util
import json
import math
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from omnigraph import Catalog, compile_schema, lint
from omnigraph.lang import EdgeType, NodeType, compile_query, render_key

PAPERS = Path(__file__).parents[3] / "examples" / "papers"
Data = dict[str, Any]  # a parsed JSON object: the tests below are what checks its values
Rule = Callable[[object], bool]


def load_script(name: str) -> ModuleType:
    module_name = f"papers_{name}"
    spec = importlib.util.spec_from_file_location(module_name, PAPERS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


generate = load_script("generate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    source: str
    target: str
    data: Data


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    nodes: dict[str, list[Data]]
    edges: dict[str, list[Edge]]

    def ids(self, type_name: str) -> list[str]:
        return [node_id(type_name, data) for data in self.nodes[type_name]]


def node_id(type_name: str, data: Data) -> str:
    match type_name:
        case "Venue":
            return json.dumps([data["series"], str(data["year"])], separators=(",", ":"))
        case "Author":
            return str(data["handle"])
        case _:
            return str(data["slug"])


def parse(lines: bytes) -> Graph:
    nodes: dict[str, list[Data]] = defaultdict(list)
    edges: dict[str, list[Edge]] = defaultdict(list)
    for line in lines.splitlines():
        row = json.loads(line)
        if "type" in row:
            assert set(row) == {"type", "data"}
            nodes[row["type"]].append(row["data"])
        else:
            assert set(row) == {"edge", "from", "to", "data"}
            edges[row["edge"]].append(Edge(source=row["from"], target=row["to"], data=row["data"]))
    return Graph(nodes=dict(nodes), edges=dict(edges))


def make(size: object, seed: int) -> bytes:
    return bytes(generate.encode(generate.generate(size, seed)))


@pytest.fixture(scope="module")
def full() -> Graph:
    return parse(make(generate.FULL, 7))


@pytest.fixture(scope="module", params=["small", "full", "other_seed"])
def graph(request: pytest.FixtureRequest, full: Graph) -> Graph:
    match request.param:
        case "small":
            return parse((PAPERS / "papers-small.ndjson").read_bytes())
        case "full":
            return full
        case _:
            return parse(make(generate.Size(papers=300, authors=60), 20_240))


def text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def texts(value: object) -> bool:
    return isinstance(value, list) and value != [] and all(text(item) for item in value)


def flag(value: object) -> bool:
    return isinstance(value, bool)


def day(value: object) -> bool:
    return isinstance(value, str) and date.fromisoformat(value).isoformat() == value


def moment(value: object) -> bool:
    if not isinstance(value, str):
        return False
    read = datetime.fromisoformat(value)
    return read.isoformat(timespec="milliseconds").replace("+00:00", "Z") == value


def whole(low: int, high: int) -> Rule:
    return lambda value: type(value) is int and low <= value <= high


def number(low: float, high: float) -> Rule:
    return lambda value: isinstance(value, float) and low <= value <= high


def one_of(*words: str) -> Rule:
    return lambda value: value in words


def like(pattern: str) -> Rule:
    return lambda value: isinstance(value, str) and re.search(pattern, value) is not None


def unit_vector(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 16:
        return False
    is_float = all(isinstance(part, float) for part in value)
    return is_float and math.isclose(math.hypot(*value), 1.0, abs_tol=1e-5)


U32_MAX = 2**32 - 1
# A question mark ends the name of a property that a row may leave out.
NAMED: dict[str, Rule] = {"name": text, "aliases?": texts}
NODE_RULES: dict[str, dict[str, Rule]] = {
    "Institution": {
        **NAMED,
        "slug": text,
        "country": like("^[A-Z]{2}$"),
        "kind": one_of("university", "institute", "company", "hospital"),
        "founded?": whole(1000, 2100),
    },
    "Author": {
        **NAMED,
        "handle": like("^[a-z]+(-[a-z0-9]+)+$"),
        "email?": like("^[^@ ]+@[^@ ]+[.]example$"),
        "interests?": texts,
        "active_since": day,
        "is_active?": flag,
        "h_index?": whole(0, 300),
    },
    "Topic": {**NAMED, "slug": text, "scope?": text},
    "Venue": {
        **NAMED,
        "series": text,
        "year": whole(1900, 2100),
        "kind": one_of("journal", "conference", "workshop"),
        "starts?": day,
        "submissions_close?": moment,
    },
    "Paper": {
        "slug": like("^p[0-9]{4}-[0-9]{4,6}$"),
        "title": text,
        "abstract": text,
        "published": day,
        "status?": one_of("preprint", "published", "retracted"),
        "open_access?": flag,
        "keywords?": texts,
        "pages?": whole(1, U32_MAX),
        "review_score?": number(0, 10),
        "embargo_until?": moment,
        "revised_at?": moment,
        "embedding": unit_vector,
    },
}
EDGE_RULES: dict[str, dict[str, Rule]] = {
    "AffiliatedWith": {
        "since": day,
        "role": one_of("faculty", "postdoc", "student", "visitor"),
    },
    "CoauthorOf": {"papers": whole(1, U32_MAX), "first_paper": day},
    "Wrote": {"position": whole(1, U32_MAX), "corresponding?": flag},
    "HasTopic": {"weight": number(0, 1)},
    "PublishedIn": {},
    "Cites": {
        "intent": one_of("background", "uses", "extends", "compares", "disputes"),
        "context?": text,
    },
    "SubtopicOf": {},
}
ENDPOINTS = {
    "AffiliatedWith": ("Author", "Institution"),
    "CoauthorOf": ("Author", "Author"),
    "Wrote": ("Author", "Paper"),
    "HasTopic": ("Paper", "Topic"),
    "PublishedIn": ("Paper", "Venue"),
    "Cites": ("Paper", "Paper"),
    "SubtopicOf": ("Topic", "Topic"),
}
CARDINALITIES = {
    "AffiliatedWith": (1, 3),
    "HasTopic": (1, 3),
    "PublishedIn": (0, 1),
    "SubtopicOf": (0, 1),
}


def broken_rules(rules: dict[str, Rule], data: Data) -> Iterator[str]:
    known = {name.removesuffix("?") for name in rules}
    yield from (f"unknown {name}" for name in data if name not in known)
    for name, rule in rules.items():
        key = name.removesuffix("?")
        if key in data:
            if not rule(data[key]):
                yield f"{key} = {data[key]!r}"
        elif key == name:
            yield f"missing {key}"


def test_same_size_and_seed_give_the_same_bytes() -> None:
    size = generate.Size(papers=200, authors=40)
    assert make(size, 11) == make(size, 11)
    assert make(size, 11) != make(size, 12)


def test_committed_small_file_is_what_the_generator_makes() -> None:
    assert (PAPERS / "papers-small.ndjson").read_bytes() == make(generate.SMALL, 7)


def test_full_size_has_the_stated_row_counts(full: Graph) -> None:
    assert {name: len(rows) for name, rows in full.nodes.items()} == {
        "Institution": 60,
        "Author": 800,
        "Topic": 24,
        "Venue": 150,
        "Paper": 2000,
    }
    assert set(full.edges) == set(EDGE_RULES)
    assert 2000 < len(full.edges["Cites"]) < 10_000
    assert 2000 < len(full.edges["Wrote"]) < 10_000


def test_small_size_is_about_a_hundred_rows_with_every_type() -> None:
    lines = (PAPERS / "papers-small.ndjson").read_bytes()
    small = parse(lines)
    assert 90 <= len(lines.splitlines()) <= 120
    assert set(small.nodes) == set(NODE_RULES)
    assert set(small.edges) == set(EDGE_RULES)


def test_nodes_come_before_edges() -> None:
    lines = (PAPERS / "papers-small.ndjson").read_bytes().splitlines()
    is_edge = [b'{"edge"' in line for line in lines]
    assert is_edge == sorted(is_edge)


@pytest.mark.parametrize("type_name", NODE_RULES)
def test_node_values_fit_their_types_ranges_and_checks(graph: Graph, type_name: str) -> None:
    for data in graph.nodes[type_name]:
        assert not list(broken_rules(NODE_RULES[type_name], data))


@pytest.mark.parametrize("type_name", EDGE_RULES)
def test_edge_values_fit_their_types(graph: Graph, type_name: str) -> None:
    for edge in graph.edges[type_name]:
        assert not list(broken_rules({"id": text, **EDGE_RULES[type_name]}, edge.data))


@pytest.mark.parametrize("type_name", NODE_RULES)
def test_keys_are_unique(graph: Graph, type_name: str) -> None:
    ids = graph.ids(type_name)
    assert len(ids) == len(set(ids))


def test_unique_properties_are_unique(graph: Graph) -> None:
    emails = [data["email"] for data in graph.nodes["Author"] if "email" in data]
    assert len(emails) == len(set(emails))
    places = [(edge.target, edge.data["position"]) for edge in graph.edges["Wrote"]]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("type_name", EDGE_RULES)
def test_edge_ids_and_endpoint_pairs_are_unique(graph: Graph, type_name: str) -> None:
    edges = graph.edges[type_name]
    assert len({edge.data["id"] for edge in edges}) == len(edges)
    assert len({(edge.source, edge.target) for edge in edges}) == len(edges)


@pytest.mark.parametrize("type_name", EDGE_RULES)
def test_every_edge_endpoint_exists(graph: Graph, type_name: str) -> None:
    from_type, to_type = ENDPOINTS[type_name]
    edges = graph.edges[type_name]
    assert {edge.source for edge in edges} <= set(graph.ids(from_type))
    assert {edge.target for edge in edges} <= set(graph.ids(to_type))


@pytest.mark.parametrize("type_name", CARDINALITIES)
def test_cardinalities_hold_for_every_source(graph: Graph, type_name: str) -> None:
    low, high = CARDINALITIES[type_name]
    counts = Counter(edge.source for edge in graph.edges[type_name])
    assert all(low <= counts[one] <= high for one in graph.ids(ENDPOINTS[type_name][0]))


def test_papers_cite_only_strictly_older_papers(graph: Graph) -> None:
    published = {data["slug"]: data["published"] for data in graph.nodes["Paper"]}
    assert all(published[edge.target] < published[edge.source] for edge in graph.edges["Cites"])


def test_derived_values_agree_with_what_they_are_derived_from(graph: Graph) -> None:
    published = {data["slug"]: data["published"] for data in graph.nodes["Paper"]}
    writers: dict[str, list[str]] = defaultdict(list)
    for edge in graph.edges["Wrote"]:
        writers[edge.target].append(edge.source)
    pairs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for slug, handles in writers.items():
        for left in handles:
            for right in handles:
                if left < right:
                    pairs[left, right].append(published[slug])
    assert {
        (edge.source, edge.target): (edge.data["papers"], edge.data["first_paper"])
        for edge in graph.edges["CoauthorOf"]
    } == {pair: (len(dates), min(dates)) for pair, dates in pairs.items()}
    shares: Counter[str] = Counter()
    for edge in graph.edges["HasTopic"]:
        shares[edge.source] += edge.data["weight"]
    assert all(math.isclose(share, 1.0) for share in shares.values())
    assert set(writers) == set(shares) == set(published)


def test_a_few_papers_collect_most_citations(full: Graph) -> None:
    counts = sorted(Counter(edge.target for edge in full.edges["Cites"]).values(), reverse=True)
    top_tenth = sum(counts[: len(full.nodes["Paper"]) // 10])
    assert top_tenth > sum(counts) / 2
    assert len(counts) < len(full.nodes["Paper"])


def main_topics(graph: Graph) -> dict[str, str]:
    mine: dict[str, tuple[float, str]] = {}
    for edge in graph.edges["HasTopic"]:
        mine[edge.source] = max(
            mine.get(edge.source, (0.0, "")), (edge.data["weight"], edge.target)
        )
    return {slug: topic for slug, (_, topic) in mine.items()}


def test_nearest_vectors_belong_to_the_same_subject(full: Graph) -> None:
    topics = main_topics(full)
    slugs = [data["slug"] for data in full.nodes["Paper"]]
    vectors = np.array([data["embedding"] for data in full.nodes["Paper"]])
    similarity = vectors @ vectors.T
    np.fill_diagonal(similarity, -1.0)
    nearest = similarity.argmax(axis=1)
    hits = sum(topics[slugs[i]] == topics[slugs[j]] for i, j in enumerate(nearest))
    assert hits > 0.9 * len(slugs)


def test_a_phrase_of_a_subject_is_found_in_papers_of_that_subject(full: Graph) -> None:
    covered = defaultdict(set)
    for edge in full.edges["HasTopic"]:
        covered[edge.source].add(edge.target)
    hits = [data for data in full.nodes["Paper"] if "fast radio bursts" in data["abstract"]]
    assert len(hits) >= 10
    assert all("transients" in covered[data["slug"]] for data in hits)


def test_command_writes_into_a_directory_and_to_standard_output(tmp_path: Path) -> None:
    script = [sys.executable, str(PAPERS / "generate.py"), "--size", "small"]
    subprocess.run([*script, "--out", str(tmp_path)], check=True, capture_output=True)
    streamed = subprocess.run(script, check=True, capture_output=True).stdout
    assert (tmp_path / "papers-small.ndjson").read_bytes() == streamed == make(generate.SMALL, 7)


def test_command_refuses_a_size_below_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        generate.main(["--papers", "0"])
    assert "--papers must be at least 1" in capsys.readouterr().err


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return compile_schema((PAPERS / "schema.pg").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def queries() -> str:
    return (PAPERS / "queries.gq").read_text(encoding="utf-8")


def test_schema_declares_what_the_rules_of_this_file_say(catalog: Catalog) -> None:
    types: list[NodeType | EdgeType] = [*catalog.node_types.values(), *catalog.edge_types.values()]
    declared = {
        entity.name: {
            name if item.must_be_given else f"{name}?" for name, item in entity.properties.items()
        }
        for entity in types
    }
    assert declared == {name: set(rule) for name, rule in {**NODE_RULES, **EDGE_RULES}.items()}
    ends = {name: (edge.from_type, edge.to_type) for name, edge in catalog.edge_types.items()}
    assert ends == ENDPOINTS
    cards = {name: edge.card for name, edge in catalog.edge_types.items() if edge.card != (0, None)}
    assert cards == CARDINALITIES


def test_venue_ids_are_the_canonical_ids_of_their_keys(full: Graph, catalog: Catalog) -> None:
    venue = catalog.node_types["Venue"]
    assert venue.key is not None
    kinds = [venue.properties[name].type for name in venue.key]
    for data in full.nodes["Venue"]:
        values = [data[name] for name in venue.key]
        assert render_key(values, kinds) == node_id("Venue", data)


def test_queries_lint_without_a_single_finding(catalog: Catalog, queries: str) -> None:
    report = lint(catalog, queries, path="queries.gq")
    assert (report.status, report.errors, report.warnings, report.infos) == ("ok", 0, 0, 0)
    kinds = Counter(result.kind for result in report.results)
    assert kinds == {"read": 15, "mutation": 5}


def test_every_query_has_a_description_and_a_row_in_the_readme(
    catalog: Catalog, queries: str
) -> None:
    readme = (PAPERS / "README.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `(\w+)` \|", readme.split("## The queries")[1], re.MULTILINE)
    names = [result.name for result in lint(catalog, queries).results]
    assert documented == names
    assert all(compile_query(catalog, queries, name).stored().description for name in names)


def test_the_sample_is_stored_in_one_commit_changed_on_branches_and_merged(tmp_path: Path) -> None:
    script = [sys.executable, str(PAPERS / "store.py"), str(tmp_path / "papers.omni")]
    done = subprocess.run(script, check=True, capture_output=True, encoding="utf-8")
    counts = dict(re.findall(r"^  (\S.*?) +(\d+) rows$", done.stdout, re.MULTILINE))
    assert counts["review"] == counts["main, before the load"] == "0"
    assert int(counts["main"]) == int(counts["edge:Cites"]) > 0
    assert done.stdout.endswith(
        "Merge of correction\n"
        "  planned: {'node:Topic': {'inserted': 1, 'updated': 0, 'deleted': 0}}\n"
        "  fast_forward: 7 topics\n"
        "  undone: 6 topics\n"
    )


def test_quickstart_prints_types_lint_result_and_plan() -> None:
    script = [sys.executable, str(PAPERS / "quickstart.py"), "--query", "citation_chain"]
    done = subprocess.run(script, check=True, capture_output=True, encoding="utf-8")
    assert "key: series, year" in done.stdout
    assert "ok, 20 processed, 0 errors, 0 warnings" in done.stdout
    assert "min_hops=1, max_hops=3" in done.stdout
