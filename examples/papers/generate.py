"""Writes the sample graph of `schema.pg` as NDJSON in the load format: nodes, then edges.

The same size and seed give the same bytes on every platform and every NumPy release: all
randomness comes from the raw 64-bit stream of PCG64, whose values NumPy guarantees, and no step
uses a function whose last digit may differ between C libraries. The data keeps every constraint
of the schema. People, places and venues are composed from invented syllables and words.

    python examples/papers/generate.py --papers 2000 --seed 7 --out papers.ndjson
    python examples/papers/generate.py --size small --out .
"""

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import combinations
from pathlib import Path
from typing import TypeVar

from numpy.random import PCG64

VECTOR_DIMENSION = 16
DEFAULT_SEED = 7
T = TypeVar("T")
Record = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many of each thing to make; the defaults are the full size."""

    papers: int = 2000
    authors: int = 800
    authors_per_group: int = 8
    institutions: int = 60
    fields: int = 6
    subtopics_per_field: int = 3
    series: int = 10
    years: range = range(2010, 2025)
    citations_at_most: int = 7


FULL = Size()
SMALL = Size(
    papers=10,
    authors=7,
    authors_per_group=3,
    institutions=3,
    fields=2,
    subtopics_per_field=2,
    series=2,
    years=range(2022, 2024),
    citations_at_most=4,
)


class Draws:
    """A seeded source of choices built on the raw PCG64 stream only."""

    def __init__(self, seed: int) -> None:
        self._bits = PCG64(seed)

    def below(self, bound: int) -> int:
        """Returns an integer in `[0, bound)`."""
        return (int(self._bits.random_raw()) * bound) >> 64

    def chance(self, percent: int) -> bool:
        """Returns true in `percent` of 100 cases."""
        return self.below(100) < percent

    def one(self, items: Sequence[T]) -> T:
        """Returns one item."""
        return items[self.below(len(items))]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """Returns up to `count` different items in random order."""
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in range(min(count, len(rest)))]

    def weighted(self, weights: Sequence[int]) -> int:
        """Returns an index, each as likely as its weight."""
        left = self.below(sum(weights))
        for index, weight in enumerate(weights):
            if left < weight:
                return index
            left -= weight
        raise AssertionError("unreachable: the draw is below the sum of the weights")

    def noise(self) -> float:
        """Returns a bell-shaped value in (-1, 1), from integers only."""
        return (sum(self.below(1 << 16) for _ in range(4)) - (1 << 17)) / (1 << 17)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A subtopic with the words its papers are made of and its direction in vector space."""

    slug: str
    name: str
    field: str
    words: dict[str, list[str]]
    direction: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Authors who work at one place on one subject and mostly write with each other."""

    institution: int
    subject: Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """An author before papers are known."""

    handle: str
    name: str
    group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A reference to an older paper, by its index."""

    target: int
    intent: str
    context: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A paper with everything its rows need."""

    slug: str
    title: str
    abstract: str
    published: date
    status: str
    keywords: list[str]
    topics: list[tuple[Subject, float]]
    authors: list[int]
    citations: list[Citation]
    venue: str | None
    extras: Record
    phrases: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The word lists of `vocabulary.json`, cut to a size."""

    fields: list[Record]
    subjects: list[Subject]
    series: list[dict[str, str]]
    lists: dict[str, list[str]]
    contexts: dict[str, list[str]]
    institution_names: dict[str, str]


def read_vocabulary(size: Size) -> Vocabulary:
    """Returns the word lists, with as many fields, subtopics and series as the size asks for."""
    raw = json.loads(Path(__file__).with_name("vocabulary.json").read_text(encoding="utf-8"))
    fields = raw["topics"][: size.fields]
    subjects = [
        Subject(
            slug=sub["slug"],
            name=sub["name"],
            field=field["slug"],
            words={
                "object": sub["objects"],
                "method": sub["methods"],
                "goal": sub["goals"],
                "problem": field["problems"],
                "data": field["data"],
            },
            direction=subject_direction(field_index, sub_index),
        )
        for field_index, field in enumerate(fields)
        for sub_index, sub in enumerate(field["subtopics"][: size.subtopics_per_field])
    ]
    return Vocabulary(
        fields=[{key: field[key] for key in ("slug", "name", "scope")} for field in fields],
        subjects=subjects,
        series=raw["series"][: size.series],
        lists={key: value for key, value in raw.items() if isinstance(value, list)},
        contexts=raw["contexts"],
        institution_names=raw["institution_names"],
    )


def subject_direction(field_index: int, sub_index: int) -> tuple[float, ...]:
    """Returns a vector that is close to its siblings' and far from other fields'."""
    parts = [0.0] * VECTOR_DIMENSION
    parts[field_index] = 1.0
    parts[6 + (3 * field_index + sub_index) % 10] += 0.8
    return tuple(parts)


def unit(parts: Sequence[float]) -> list[float]:
    """Returns the vector at length 1, rounded to six digits, without negative zeros."""
    length = math.sqrt(math.fsum(part * part for part in parts))
    return [round(part / length, 6) + 0.0 for part in parts]


def make_embedding(draws: Draws, topics: Sequence[tuple[Subject, float]]) -> list[float]:
    """Returns a unit vector near the weighted mean of the topics."""
    return unit(
        [
            math.fsum(weight * topic.direction[axis] for topic, weight in topics)
            + 0.25 * draws.noise()
            for axis in range(VECTOR_DIMENSION)
        ]
    )


def make_institutions(draws: Draws, words: Vocabulary, size: Size) -> list[Record]:
    """Returns the properties of each institution; no two share a kind and a town."""
    kinds = list(words.institution_names)
    towns = words.lists["towns"]
    records: list[Record] = []
    for index in range(min(size.institutions, len(kinds) * len(towns))):
        town = towns[index % len(towns)]
        kind = kinds[(index // len(towns) + index % 2) % len(kinds)]
        name = words.institution_names[kind].format(town=town)
        record: Record = {"slug": slugify(name), "name": name}
        if draws.chance(30):
            record["aliases"] = ["".join(word[0] for word in name.split() if word[0].isupper())]
        record["country"] = draws.one(words.lists["countries"])
        record["kind"] = kind
        if draws.chance(80):
            record["founded"] = 1600 + draws.below(400)
        records.append(record)
    return records


def slugify(name: str) -> str:
    """Returns the name in lower case with hyphens for blanks."""
    return name.lower().replace(" ", "-")


def make_groups(draws: Draws, words: Vocabulary, size: Size, institutions: int) -> list[Group]:
    """Returns the groups; the first ones cover every field and every institution."""
    groups = []
    for index in range(max(1, size.authors // size.authors_per_group)):
        subject = draws.one(words.subjects)
        if index < size.fields:
            subject = words.subjects[index * size.subtopics_per_field]
        groups.append(Group(institution=index % institutions, subject=subject))
    return groups


def make_authors(draws: Draws, words: Vocabulary, size: Size, groups: int) -> list[Author]:
    """Returns the authors, spread evenly over the groups, with unique handles."""
    authors = []
    seen: Counter[str] = Counter()
    for index in range(size.authors):
        family = draws.one(words.lists["family_heads"]) + draws.one(words.lists["family_tails"])
        name = f"{draws.one(words.lists['given_names'])} {family}"
        handle = slugify(name)
        seen[handle] += 1
        if seen[handle] > 1:
            handle = f"{handle}-{seen[handle]}"
        authors.append(Author(handle=handle, name=name, group=index % groups))
    return authors


class PaperMaker:
    """Makes papers from the oldest to the newest, so that each can only cite what came before.

    Citations and authorships are drawn from urns: an entry is added at every use, so that what has
    been picked often is picked more often. This gives citation counts their long tail.
    """

    def __init__(
        self,
        draws: Draws,
        words: Vocabulary,
        size: Size,
        groups: list[Group],
        authors: list[Author],
    ) -> None:
        self._draws = draws
        self._words = words
        self._size = size
        self._groups = groups
        self._authors = authors
        self._members: list[list[int]] = [[] for _ in groups]
        for index, author in enumerate(authors):
            self._members[author.group].append(index)
        self._urns: dict[str, list[int]] = {"": []}
        self._per_year: Counter[int] = Counter()
        self.papers: list[Paper] = []

    def add(self, published: date) -> None:
        """Makes one paper. The dates of successive calls must not fall."""
        draws = self._draws
        group_index = draws.below(len(self._groups))
        topics = self._pick_topics(self._groups[group_index])
        phrases = self._pick_phrases(topics[0][0])
        status = ("preprint", "published", "retracted")[draws.weighted((20, 77, 3))]
        citations = self._pick_citations(topics[0][0], published)
        self._per_year[published.year] += 1
        main = topics[0][0]
        keywords = [
            phrases["object"],
            phrases["method"],
            *(topic.name.lower() for topic, _ in topics),
        ]
        paper = Paper(
            slug=f"p{published.year}-{self._per_year[published.year]:04d}",
            title=capitalise(draws.one(self._words.lists["titles"]).format_map(phrases)),
            abstract=self._write_abstract(topics, phrases),
            published=published,
            status=status,
            keywords=list(dict.fromkeys(keywords)),
            topics=topics,
            authors=self._pick_authors(group_index),
            citations=citations,
            venue=None if status == "preprint" else self._pick_venue(main.field),
            extras=self._pick_extras(published, status),
            phrases=phrases,
        )
        index = len(self.papers)
        self.papers.append(paper)
        for cited in [index, *(citation.target for citation in citations)]:
            topic = self.papers[cited].topics[0][0]
            for urn in ("", topic.field, topic.slug):
                self._urns.setdefault(urn, []).append(cited)

    def _pick_topics(self, group: Group) -> list[tuple[Subject, float]]:
        draws = self._draws
        family = [one for one in self._words.subjects if one.field == group.subject.field]
        main = group.subject if draws.chance(75) else draws.one(family)
        count = 1 + draws.weighted((50, 40, 10))
        chosen = [main]
        while len(chosen) < count:
            topic = draws.one(family if draws.chance(60) else self._words.subjects)
            if topic not in chosen:
                chosen.append(topic)
        return list(zip(chosen, ((1.0,), (0.7, 0.3), (0.6, 0.25, 0.15))[count - 1], strict=True))

    def _pick_phrases(self, topic: Subject) -> dict[str, str]:
        phrases = {}
        for kind, items in topic.words.items():
            phrases[kind], phrases[f"{kind}2"] = self._draws.some(items, 2)
        phrases["percent"] = str(3 + self._draws.below(38))
        phrases["count"] = str(50 * (2 + self._draws.below(60)))
        for kind in ("object", "method"):
            phrases[kind.capitalize()] = capitalise(phrases[kind])
        return phrases

    def _write_abstract(
        self, topics: Sequence[tuple[Subject, float]], phrases: dict[str, str]
    ) -> str:
        lists = self._words.lists
        parts = [
            self._draws.one(lists[kind]).format_map(phrases)
            for kind in ("openings", "contributions", "evidence")
        ]
        for topic, _ in topics[1:]:
            other = self._draws.one(topic.words["object"])
            bridge = self._draws.one(lists["bridges"])
            parts.append(bridge.format(object=other, topic=topic.name.lower()))
        parts.append(self._draws.one(lists["closings"]).format_map(phrases))
        return " ".join(parts)

    def _pick_authors(self, group: int) -> list[int]:
        draws = self._draws
        urn = self._members[group]
        chosen: list[int] = []
        for _ in range(1 + draws.weighted((15, 30, 30, 15, 10))):
            author = draws.below(len(self._authors)) if draws.chance(12) else draws.one(urn)
            if author not in chosen:
                chosen.append(author)
        urn.extend(author for author in chosen if self._authors[author].group == group)
        return chosen

    def _pick_citations(self, topic: Subject, published: date) -> list[Citation]:
        draws = self._draws
        chosen: dict[int, Citation] = {}
        for _ in range(draws.below(self._size.citations_at_most + 1)):
            name = (topic.slug, topic.field, "")[draws.weighted((50, 35, 15))]
            urn = self._urns.get(name)
            if not urn:
                continue
            target = draws.one(urn)
            if target in chosen or self.papers[target].published >= published:
                continue
            chosen[target] = self._write_citation(target)
        return list(chosen.values())

    def _write_citation(self, target: int) -> Citation:
        contexts = self._words.contexts
        intent = list(contexts)[self._draws.weighted((45, 25, 12, 13, 5))]
        context = None
        if self._draws.chance(70):
            values = {**self.papers[target].phrases, "n": str(1 + self._draws.below(60))}
            context = self._draws.one(contexts[intent]).format_map(values)
        return Citation(target=target, intent=intent, context=context)

    def _pick_venue(self, field: str) -> str:
        series = self._words.series
        fitting = [one["slug"] for one in series if one["topic"] == field]
        return self._draws.one(fitting or [one["slug"] for one in series])

    def _pick_extras(self, published: date, status: str) -> Record:
        draws = self._draws
        is_open = status == "preprint" or draws.chance(40)
        extras: Record = {"open_access": is_open}
        if status != "preprint":
            extras["pages"] = 4 + draws.below(36)
            extras["review_score"] = round(6 + 3 * draws.noise(), 1)
        if not is_open and draws.chance(40):
            extras["embargo_until"] = timestamp(published + timedelta(days=365), hour=0)
        if status == "retracted" or draws.chance(15):
            revised = published + timedelta(days=1 + draws.below(300))
            extras["revised_at"] = timestamp(revised, hour=draws.below(24))
        return extras


def capitalise(text: str) -> str:
    """Returns the text with its first letter in upper case and the rest as it is."""
    return text[:1].upper() + text[1:]


def timestamp(day: date, *, hour: int) -> str:
    """Returns a full hour of a day as a DateTime value."""
    return f"{day.isoformat()}T{hour:02d}:00:00.000Z"


def make_papers(
    draws: Draws, words: Vocabulary, size: Size, groups: list[Group], authors: list[Author]
) -> list[Paper]:
    """Returns the papers in order of their dates, with more of them in later years."""
    weights = [3 + index for index, _ in enumerate(size.years)]
    dates = sorted(
        date(size.years[draws.weighted(weights)], 1, 1) + timedelta(days=draws.below(365))
        for _ in range(size.papers)
    )
    maker = PaperMaker(draws, words, size, groups, authors)
    for published in dates:
        maker.add(published)
    return maker.papers


def h_indexes(papers: Sequence[Paper], authors: int) -> list[int]:
    """Returns the h-index of each author."""
    cited = Counter(citation.target for paper in papers for citation in paper.citations)
    counts: list[list[int]] = [[] for _ in range(authors)]
    for index, paper in enumerate(papers):
        for author in paper.authors:
            counts[author].append(cited[index])
    return [
        sum(count > rank for rank, count in enumerate(sorted(mine, reverse=True)))
        for mine in counts
    ]


def first_papers(papers: Sequence[Paper]) -> dict[int, date]:
    """Returns the date of each author's first paper; authors without one are left out."""
    first: dict[int, date] = {}
    for paper in papers:
        for author in paper.authors:
            first.setdefault(author, paper.published)
    return first


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The finished graph, before it is spelled as rows."""

    size: Size
    words: Vocabulary
    institutions: list[Record]
    groups: list[Group]
    authors: list[Author]
    papers: list[Paper]


def make_world(draws: Draws, size: Size) -> World:
    """Returns the whole graph of a size."""
    words = read_vocabulary(size)
    institutions = make_institutions(draws, words, size)
    groups = make_groups(draws, words, size, len(institutions))
    authors = make_authors(draws, words, size, len(groups))
    papers = make_papers(draws, words, size, groups, authors)
    return World(
        size=size,
        words=words,
        institutions=institutions,
        groups=groups,
        authors=authors,
        papers=papers,
    )


def node(type_name: str, data: Record) -> Record:
    """Returns a node in the load format."""
    return {"type": type_name, "data": data}


def edge(type_name: str, source: str, target: str, **data: object) -> Record:
    """Returns an edge in the load format; its id makes a second load an update."""
    ends = {"edge": type_name, "from": source, "to": target}
    return {**ends, "data": {"id": f"{source}--{target}", **data}}


def author_rows(draws: Draws, world: World) -> Iterator[tuple[Record, list[Record]]]:
    """Yields each author with the author's affiliations."""
    h_index = h_indexes(world.papers, len(world.authors))
    first = first_papers(world.papers)
    slugs = [str(record["slug"]) for record in world.institutions]
    for index, author in enumerate(world.authors):
        group = world.groups[author.group]
        home = slugs[group.institution]
        since = first.get(index, date(world.size.years[-1], 1, 1)) - timedelta(
            days=draws.below(700)
        )
        data: Record = {"handle": author.handle, "name": author.name}
        given, family = author.name.split(" ", 1)
        if draws.chance(20):
            data["aliases"] = [f"{given[0]}. {family}"]
        if draws.chance(90):
            data["email"] = f"{author.handle}@{home}.example"
        data["interests"] = draws.some(group.subject.words["object"], 2)
        data["active_since"] = since.isoformat()
        if draws.chance(10):
            data["is_active"] = False
        data["h_index"] = h_index[index]
        places = list(dict.fromkeys([home, *([draws.one(slugs)] if draws.chance(15) else [])]))
        roles = ("faculty", "postdoc", "student", "visitor")
        links = [
            edge(
                "AffiliatedWith",
                author.handle,
                place,
                since=(since + timedelta(days=200 * order)).isoformat(),
                role=roles[draws.weighted((40, 25, 30, 5))] if order == 0 else "visitor",
            )
            for order, place in enumerate(places)
        ]
        yield node("Author", data), links


def topic_rows(world: World) -> Iterator[Record]:
    """Yields the fields, then their subtopics."""
    for field in world.words.fields:
        yield node("Topic", field)
    for topic in world.words.subjects:
        yield node("Topic", {"slug": topic.slug, "name": topic.name})


def venue_id(series: str, year: int) -> str:
    """Returns the id of a venue: the compact JSON array of its two key values."""
    return json.dumps([series, str(year)], separators=(",", ":"))


def venue_rows(draws: Draws, world: World) -> Iterator[Record]:
    """Yields one edition of each series per year."""
    for series in world.words.series:
        for year in world.size.years:
            data: Record = {"series": series["slug"], "year": year}
            data["name"] = f"{series['name']} {year}"
            data["kind"] = series["kind"]
            if series["kind"] != "journal":
                starts = date(year, 1, 1) + timedelta(days=120 + draws.below(180))
                data["starts"] = starts.isoformat()
                closes = starts - timedelta(days=100)
                data["submissions_close"] = timestamp(closes, hour=12)
            yield node("Venue", data)


def paper_rows(draws: Draws, world: World) -> Iterator[Record]:
    """Yields the papers, oldest first."""
    for paper in world.papers:
        data: Record = {
            "slug": paper.slug,
            "title": paper.title,
            "abstract": paper.abstract,
            "published": paper.published.isoformat(),
            "status": paper.status,
            "keywords": paper.keywords,
            **paper.extras,
            "embedding": make_embedding(draws, paper.topics),
        }
        yield node("Paper", data)


def coauthor_rows(world: World) -> Iterator[Record]:
    """Yields each pair of authors once, from the smaller handle to the greater."""
    pairs: dict[tuple[str, str], list[date]] = {}
    for paper in world.papers:
        handles = sorted(world.authors[author].handle for author in paper.authors)
        for pair in combinations(handles, 2):
            pairs.setdefault(pair, []).append(paper.published)
    for (left, right), dates in sorted(pairs.items()):
        first = dates[0].isoformat()
        yield edge("CoauthorOf", left, right, papers=len(dates), first_paper=first)


def paper_edge_rows(world: World) -> Iterator[Record]:
    """Yields what leads to and from each paper, one edge type after another."""
    for paper in world.papers:
        for order, author in enumerate(paper.authors):
            handle = world.authors[author].handle
            is_last = order == len(paper.authors) - 1
            yield edge("Wrote", handle, paper.slug, position=order + 1, corresponding=is_last)
    for paper in world.papers:
        for topic, weight in paper.topics:
            yield edge("HasTopic", paper.slug, topic.slug, weight=weight)
    for paper in world.papers:
        if paper.venue is not None:
            venue = venue_id(paper.venue, paper.published.year)
            yield edge("PublishedIn", paper.slug, venue, id=paper.slug)
    for paper in world.papers:
        for citation in paper.citations:
            context = {} if citation.context is None else {"context": citation.context}
            target = world.papers[citation.target].slug
            yield edge("Cites", paper.slug, target, intent=citation.intent, **context)
    for topic in world.words.subjects:
        yield edge("SubtopicOf", topic.slug, topic.field)


def generate(size: Size, seed: int) -> Iterator[Record]:
    """Yields every row of the graph, nodes before edges; holds the graph in memory."""
    draws = Draws(seed)
    world = make_world(draws, size)
    authors = list(author_rows(draws, world))
    for institution in world.institutions:
        yield node("Institution", institution)
    yield from (author for author, _ in authors)
    yield from topic_rows(world)
    yield from venue_rows(draws, world)
    yield from paper_rows(draws, world)
    for _, affiliations in authors:
        yield from affiliations
    yield from coauthor_rows(world)
    yield from paper_edge_rows(world)


def encode(records: Iterable[Record]) -> bytes:
    """Returns the records as NDJSON bytes."""
    lines = (json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in records)
    return "".join(f"{line}\n" for line in lines).encode()


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line and writes the graph."""
    parser = argparse.ArgumentParser(description="Write the sample graph of papers as NDJSON.")
    parser.add_argument("--size", choices=["full", "small"], default="full")
    parser.add_argument("--papers", type=int, help=f"number of papers (full: {FULL.papers})")
    parser.add_argument("--authors", type=int, help=f"number of authors (full: {FULL.authors})")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument("--out", type=Path, help="file, or existing directory (else: stdout)")
    options = parser.parse_args(arguments)
    size = SMALL if options.size == "small" else FULL
    for name in ("papers", "authors"):
        count = getattr(options, name)
        if count is not None and count < 1:
            parser.error(f"--{name} must be at least 1, not {count}")
        size = replace(size, **({} if count is None else {name: count}))
    data = encode(generate(size, options.seed))
    if options.out is None:
        sys.stdout.buffer.write(data)
        return
    name = "papers-small.ndjson" if options.size == "small" else "papers.ndjson"
    path = options.out / name if options.out.is_dir() else options.out
    path.write_bytes(data)
    rows = data.count(b"\n")
    print(f"{path}: {rows:,} rows, {len(data):,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
