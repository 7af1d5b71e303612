"""The steps of a history: random writes, as the graph is asked for them and as the model sees them.

Ids that the graph makes up are `?0`, `?1` and so on in a change, in the order in which they are
made; whoever runs the step finds out what they became.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from tests.property.history_model import EDGES, NODES, TABLES, Change, HistorySchema, Row, Tables

from omnigraph.lang.values import parse_date

if TYPE_CHECKING:
    import random  # noqa: TID251 - for its type

    from omnigraph import Graph
    from omnigraph.graph.jobs.report import JobReport

NAMES = ("a", "b", "c", "é", "it's")
NUMBERS = (-1, 0, 7, 2**53 + 1)
DAYS = ("1969-12-31", "1970-01-01", "1970-01-02", "2024-02-29")
AGES = (None, None, 0, 1, 2, 99, 100, 101)
EMAILS = (None, None, "x1", "x2", "y", "z", "other")
LEVELS = (None, "junior", "senior")
CODES = (None, None, None, "c1", "c2", "c3")
NOTE_IDS = tuple(f"n{number}" for number in range(5))
EDGE_IDS = tuple(f"e{number}" for number in range(9))
COMPARED: dict[str, Callable[[int, int], bool]] = {
    "=": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    ">=": lambda left, right: left >= right,
}

Mode = Literal["append", "merge", "overwrite"]
Truth = Callable[[Row], bool | None]
"""What a condition says of a row; None is unknown."""


def _opposite(part: Truth) -> Truth:
    return lambda row: None if part(row) is None else not part(row)


def _either(first: Truth, second: Truth) -> Truth:
    def truth(row: Row) -> bool | None:
        found = (first(row), second(row))
        return True if True in found else None if None in found else False

    return truth


@dataclass(kw_only=True)
class Step:
    """One write: how to do it, what it changes, and what it counts."""

    kind: str
    text: str
    run: Callable[[Graph], Any]  # Any: each kind has a receipt of its own
    change: Change
    nodes: int = 0
    edges: int = 0


@dataclass
class Steps:
    """Makes the steps of one history."""

    rng: random.Random
    schema: HistorySchema

    def next(self, before: Tables) -> Step:
        """A random write on these rows."""
        chance = self.rng.random()
        if chance < 0.3:
            return _Inserts(self, before).step()
        if chance < 0.45:
            return self._deletes(before)
        if chance < 0.9:
            return self._load(before)
        return self._call(before)

    # --- rows ---------------------------------------------------------------------------------

    def person(self) -> Row:
        """What a caller gives of a person: some values are left out."""
        rng = self.rng
        row: Row = {"name": rng.choice(NAMES), "num": rng.choice(NUMBERS), "day": rng.choice(DAYS)}
        level = "boss" if rng.random() < 0.03 else rng.choice(LEVELS)
        rest = {"age": rng.choice(AGES), "email": rng.choice(EMAILS), "level": level}
        rest["nick"] = rng.choice((None, "nick"))
        return row | {name: value for name, value in rest.items() if rng.random() < 0.6}

    def whole(self, given: Row) -> Row:
        """The row that is stored."""
        return {"age": None, "email": None, "level": None, "nick": self.schema.default} | given

    def end(self, before: Tables, type_: str) -> str:
        """An id of a node, mostly of one that exists."""
        known = sorted(before[type_])
        if known and self.rng.random() < 0.93:
            return self.rng.choice(known)
        return self.rng.choice(("nobody", *NOTE_IDS))

    def edge(self, before: Tables, table: str) -> Row:
        """What a caller gives of an edge."""
        row: Row = {
            end: self.end(before, type_)
            for end, type_ in zip(("src", "dst"), EDGES[table], strict=True)
        }
        if table == "Knows":
            row |= {"since": self.rng.choice((None, 7)), "code": self.rng.choice(CODES)}
        return row

    # --- loads --------------------------------------------------------------------------------

    def _load(self, before: Tables) -> Step:
        rng = self.rng
        mode: Mode = rng.choice(("append", "merge", "merge", "overwrite"))
        change = Change()
        lines: list[str] = []
        tables = rng.sample(TABLES, rng.randint(1, 3))
        if mode == "overwrite" and rng.random() < 0.7:
            # Edges and nodes together; otherwise something is left behind nearly always.
            tables = list(TABLES)
        # Ends are ids that are there when the load is over.
        around = {
            name: {} if mode == "overwrite" and name in tables else dict(before[name])
            for name in NODES
        }
        for table in sorted(tables, key=TABLES.index):
            for _ in range(rng.randint(1, 4)):
                entity_id, row, line = self._record(around, table, len(lines))
                change.add(table, entity_id, row)
                lines.append(line)
                if table in NODES and entity_id[0] != "?":
                    around[table][entity_id] = row
        rng.shuffle(lines)
        self._in_order(change, lines)
        if mode == "append":
            change.strict |= set(change.records)
        if mode == "overwrite":
            change.replaced |= set(change.records)
        change.one_batch = {each for each in change.records if each in NODES or mode != "merge"}
        text = "\n".join(json.loads(line)["line"] for line in lines)
        return Step(
            kind=mode,
            text=text,
            run=lambda graph: graph.load(text.encode(), mode=mode),
            change=change,
        )

    def _record(self, around: Tables, table: str, number: int) -> tuple[str, Row, str]:
        """An id, the stored row, and the line with a mark by which its record is found again."""
        rng = self.rng
        made = f"?{number}"
        if table == "Person":
            given = self.person()
            row = self.whole(given)
            entity_id = self.schema.person_id(row)
            if entity_id is None:
                entity_id = rng.choice((made, *NOTE_IDS))
            data = dict(given) if entity_id == made else {"id": entity_id, **given}
            if self.schema.key and rng.random() < 0.7:
                data.pop("id", None)
            record: Row = {"type": "Person", "data": data}
        elif table == "Note":
            row = {"text": "t", "mark": rng.choice((None, 1, 2))}
            entity_id = rng.choice((made, *NOTE_IDS, *NOTE_IDS))
            record = {
                "type": "Note",
                "data": dict(row) if entity_id == made else {"id": entity_id, **row},
            }
        else:
            row = self.edge(around, table)
            entity_id = rng.choice((made, *EDGE_IDS, *EDGE_IDS))
            data = {name: value for name, value in row.items() if name not in ("src", "dst")}
            if entity_id != made:
                data["id"] = entity_id
            record = {"edge": table, "from": row["src"], "to": row["dst"], "data": data}
        line = json.dumps(record, ensure_ascii=rng.random() < 0.5)
        return entity_id, row, json.dumps({"at": number, "line": line})

    def _in_order(self, change: Change, lines: list[str]) -> None:
        """The records as the lines stand, and made-up ids numbered in that order."""
        flat = [(table, each, row) for table, rows in change.records.items() for each, row in rows]
        change.records.clear()
        for place, line in enumerate(lines):
            table, entity_id, row = flat[json.loads(line)["at"]]
            change.add(table, f"?{place}" if entity_id.startswith("?") else entity_id, row)

    # --- deletes ------------------------------------------------------------------------------

    def _deletes(self, before: Tables) -> Step:
        """One to three deletes, all of which see the same rows."""
        rng = self.rng
        gone: dict[str, set[str]] = {table: set() for table in TABLES}
        statements: list[str] = []
        for _ in range(rng.randint(1, 3)):
            match rng.randrange(3):
                case 0:
                    where, chosen = self.predicate(before["Person"])
                    statements.append(f"delete Person where {where}")
                    gone["Person"] |= set(chosen)
                case 1:
                    end, name = rng.choice(("src", "dst")), self.end(before, "Person")
                    word = {"src": "from", "dst": "to"}[end]
                    statements.append(f"delete Knows where {word} = {literal(name)}")
                    hit = {each for each, row in before["Knows"].items() if row[end] == name}
                    gone["Knows"] |= hit
                case _:
                    statements.append("delete Note where mark > 1")
                    gone["Note"] |= {
                        each for each, row in before["Note"].items() if row["mark"] == 2
                    }
        for table, (source, target) in EDGES.items():
            gone[table] |= {
                each
                for each, row in before[table].items()
                if row["src"] in gone[source] or row["dst"] in gone[target]
            }
        text = f"query step() {{ {' '.join(statements)} }}"
        return Step(
            kind="mutation",
            text=text,
            run=lambda graph: graph.mutate(text),
            change=Change(removed={table: ids for table, ids in gone.items() if ids}),
            nodes=sum(len(gone[table]) for table in NODES),
            edges=sum(len(gone[table]) for table in EDGES),
        )

    def predicate(self, people: dict[str, Row]) -> tuple[str, list[str]]:
        """A condition, and the persons of whom it is true."""
        text, truth = self._condition(people, depth=2)
        return text, [each for each, row in people.items() if truth({"id": each, **row}) is True]

    def _condition(self, people: dict[str, Row], depth: int) -> tuple[str, Truth]:
        rng = self.rng
        if depth and rng.random() < 0.3:
            (left, first), (right, second) = (
                self._condition(people, depth - 1),
                self._condition(people, depth - 1),
            )
            if rng.random() < 0.5:
                return f"({left}) or ({right})", _either(first, second)
            return f"not ({left}) and ({right})", _opposite(_either(first, _opposite(second)))
        match rng.randrange(6):
            case 0 | 1:
                name = rng.choice(NAMES)
                return f"name = {literal(name)}", lambda row: bool(row["name"] == name)
            case 2:
                return "age is null", lambda row: row["age"] is None
            case 3:
                ages = [age for age in rng.sample(AGES, 3) if age is not None]
                return (
                    f"age in {ages}",
                    lambda row: None if row["age"] is None else row["age"] in ages,
                )
            case 4:
                ids = [each for each in sorted(people) if not each.startswith("?")][:2]
                listed = ", ".join(literal(each) for each in ids)
                return f"id in [{listed}]", lambda row: row["id"] in ids
            case _:
                sign = rng.choice(sorted(COMPARED))
                wanted = rng.choice((0, 1, 2, 99, 3_000_000_000))
                other = rng.choice((str(wanted), "num"))
                return (
                    f"age {sign} {other}",
                    lambda row: (
                        None
                        if row["age"] is None
                        else COMPARED[sign](row["age"], row["num"] if other == "num" else wanted)
                    ),
                )

    # --- the writer ---------------------------------------------------------------------------

    def _call(self, before: Tables) -> Step:
        """Persons replaced in one call and entities removed by their ids, without a cascade."""
        rng = self.rng
        change = Change(one_batch={"Person"})
        given: list[Row] = []
        for number in range(rng.randint(0, 3)):
            row = self.whole(self.person() | {"nick": rng.choice((None, "nick"))})
            entity_id = self.schema.person_id(row) or f"w{number}"
            change.add("Person", entity_id, row)
            given.append({"id": entity_id, **row, "day": parse_date(row["day"])})
        for table in rng.sample(TABLES, rng.randint(0, 2)):
            known = sorted(before[table])
            ids = set(rng.sample(known, min(len(known), rng.randint(0, 2))))
            change.removed[table] = ids | {"nothing"}

        def run(graph: Graph) -> object:
            with graph.write() as writer:
                if given:
                    schema = graph.snapshot().catalog.node_types["Person"].arrow_schema
                    writer.upsert("Person", pa.Table.from_pylist(given, schema))
                for table, ids in change.removed.items():
                    writer.delete(table, sorted(ids))
                return writer.commit()

        return Step(kind="call", text=f"{given} {change.removed}", run=run, change=change)


@dataclass
class _Inserts:
    """One to four inserts and updates; a statement sees what the ones before it wrote."""

    steps: Steps
    before: Tables
    pending: Tables = field(default_factory=lambda: {table: {} for table in TABLES})
    statements: list[str] = field(default_factory=list)
    nodes: int = 0
    edges: int = 0

    def step(self) -> Step:
        """The whole mutation."""
        for number in range(self.steps.rng.randint(1, 4)):
            match self.steps.rng.randrange(5):
                case 0:
                    self._person(number)
                case 1:
                    row = {"text": "t", "mark": self.steps.rng.choice((None, 1, 2))}
                    self._insert("Note", f"?{number}", row, row)
                case 2 | 3:
                    table = self.steps.rng.choice(sorted(EDGES))
                    row = self.steps.edge(self._seen(), table)
                    self._insert(table, f"?{number}", row, row)
                case _ if self.steps.rng.random() < 0.3:
                    self._update_edges()
                case _:
                    self._update()
        change = Change()
        for table, rows in self.pending.items():
            for entity_id, row in rows.items():
                change.add(table, entity_id, row)
        text = f"query step() {{ {' '.join(self.statements)} }}"
        return Step(
            kind="mutation",
            text=text,
            run=lambda graph: graph.mutate(text),
            change=change,
            nodes=self.nodes,
            edges=self.edges,
        )

    def _seen(self) -> Tables:
        """Rows by id; those that have no id yet cannot be named."""
        named = {
            table: {each: row for each, row in rows.items() if not each.startswith("?")}
            for table, rows in self.pending.items()
        }
        return {table: self.before[table] | named[table] for table in TABLES}

    def _person(self, number: int) -> None:
        given = self.steps.person()
        if given.get("level") == "boss":
            # A literal outside the enum does not compile.
            given["level"] = None
        row = self.steps.whole(given)
        entity_id = self.steps.schema.person_id(row)
        if_absent = entity_id is not None and self.steps.rng.random() < 0.3
        self._insert("Person", entity_id or f"?{number}", row, given, if_absent=if_absent)

    def _insert(
        self, table: str, entity_id: str, row: Row, given: Row, *, if_absent: bool = False
    ) -> None:
        words = {"src": "from", "dst": "to"}
        listed = ", ".join(
            f"{words.get(name, name)}: {literal(value, is_date=name == 'day')}"
            for name, value in given.items()
        )
        self.statements.append(f"insert {table}{' if absent' if if_absent else ''} {{ {listed} }}")
        if if_absent and entity_id in self._seen()[table]:
            return
        self.pending[table][entity_id] = row
        if table in NODES:
            self.nodes += 1
        else:
            self.edges += 1

    def _update(self) -> None:
        people = self.before["Person"] | self.pending["Person"]
        where, chosen = self.steps.predicate(people)
        name, text, value_of = self._assigned()
        self.statements.append(
            f"update Person set {{ {name}: {text} }} where {where}"  # noqa: S608 - not SQL
        )
        for each in chosen:
            self.pending["Person"][each] = people[each] | {name: value_of(people[each])}
        self.nodes += len(chosen)

    def _assigned(self) -> tuple[str, str, Callable[[Row], object]]:
        """A property, its new value as text, and what that is for a row."""
        rng = self.steps.rng
        by = rng.choice((1, -1, 2))
        constants = (("age", rng.choice(AGES)), ("email", rng.choice(EMAILS)), ("nick", "changed"))
        computed: tuple[tuple[str, str, Callable[[Row], object]], ...] = (
            ("age", f"age + {by}", lambda row: None if row["age"] is None else row["age"] + by),
            ("age", "coalesce(age, length(name))", _age_or_length),
            ("email", "lower(nick) + email", _nick_and_email),
            ("nick", "if(age > 1 or email is null, name, nick)", _name_or_nick),
        )
        if rng.random() < 0.5:
            return rng.choice(computed)
        name, value = rng.choice(constants)
        return name, literal(value), lambda _: value

    def _update_edges(self) -> None:
        rng = self.steps.rng
        edges = self.before["Knows"] | self.pending["Knows"]
        end = self.steps.end(self._seen(), "Person")
        name, value = rng.choice((("since", 8), ("code", rng.choice(CODES))))
        where = f"from = {literal(end)} or since is null"
        self.statements.append(
            f"update Knows set {{ {name}: {literal(value)} }} where {where}"  # noqa: S608 - not SQL
        )
        for each, row in edges.items():
            if row["src"] == end or row["since"] is None:
                self.pending["Knows"][each] = row | {name: value}
                self.edges += 1


def _age_or_length(row: Row) -> object:
    return len(row["name"]) if row["age"] is None else row["age"]


def _nick_and_email(row: Row) -> object:
    known = row["nick"] is not None and row["email"] is not None
    return row["nick"].lower() + row["email"] if known else None


def _name_or_nick(row: Row) -> object:
    is_older = row["age"] is not None and row["age"] > 1
    return row["name"] if is_older or row["email"] is None else row["nick"]


def literal(value: object, *, is_date: bool = False) -> str:
    """A value as `.gq` text writes it."""
    match value:
        case None:
            return "null"
        case str() if is_date:
            return f'date("{value}")'
        case str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)


def require_report(report: JobReport, before: Tables, change: Change) -> None:
    """The receipt of a load says what the model says."""
    wanted = {}
    for table, records in change.records.items():
        image = change.image(table)
        known = {} if table in change.replaced else before[table]
        common = image.keys() & known.keys()
        unchanged = sum(image[each] == known[each] for each in common)
        wanted[f"{'node' if table in NODES else 'edge'}:{table}"] = (
            len(records),
            len(image) - len(common),
            len(common) - unchanged,
            unchanged,
            len(before[table]) if table in change.replaced else 0,
            len(records) - len(image),
        )
    assert wanted == {
        each.table: (
            *(each.read, each.added, each.changed, each.unchanged),
            *(each.removed, each.superseded),
        )
        for each in report.tables
    }
