"""The writes of a torture: each is kept as text, is sent to a graph, and plays on a model of it.

The model is every row of `club`. An edge whose id the graph chose is known by its mark, which no
other edge has. Each deed is the only one of its actor, so that history tells who made a commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec
from tests.race.club import ENDS, KEYS, Row, Rows, is_chosen, lines
from tests.race.operations import table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from omnigraph import Graph
    from omnigraph.graph.history.commit_graph import Commit

COLUMNS: dict[str, tuple[str, ...]] = {
    "Person": ("email", "city", "desk", "age"),
    "Team": ("motto",),
    "Knows": ("mark",),
    "Member": ("mark", "code"),
    "Leads": ("mark",),
}
"""What is null when a record leaves it out."""

UPDATE = """query m($name: String, $email: String?) {
  update Person set { email: $email } where name = $name
}"""
GROW = """query m($least: I32, $age: I32) {
  update Person set { age: $age } where age >= $least
}"""


class Act(msgspec.Struct, frozen=True, tag=True, tag_field="act"):
    """What a write does."""

    is_keyed: ClassVar[bool] = True
    """Sent again under its key it is made once."""

    @property
    def empties(self) -> bool:
        """Whether it may leave a source without edges."""
        return False

    def send(self, graph: Graph, branch: str, key: str) -> Commit | None:
        """Make it."""
        raise NotImplementedError

    def play(self, rows: Rows) -> Rows:
        """What is there after it."""
        return rows


class Insert(Act, frozen=True):
    """Nodes that are put by their keys, and new edges, by a mutation."""

    records: list[Row]

    def send(self, graph: Graph, branch: str, key: str) -> Commit | None:
        statements = " ".join(_insert(each) for each in self.records)
        return _mutate(graph, branch, key, f"query m() {{ {statements} }}")

    def play(self, rows: Rows) -> Rows:
        return put(rows, self.records)


class Update(Act, frozen=True):
    """One person gets another address."""

    name: str
    email: str | None

    def send(self, graph: Graph, branch: str, key: str) -> Commit | None:
        given = {"name": self.name, "email": self.email}
        return _mutate(graph, branch, key, UPDATE, given)

    def play(self, rows: Rows) -> Rows:
        return _changed(rows, lambda row: row["name"] == self.name, email=self.email)


class Grow(Act, frozen=True):
    """Everybody of some age gets another one."""

    least: int
    age: int

    def send(self, graph: Graph, branch: str, key: str) -> Commit | None:
        return _mutate(graph, branch, key, GROW, {"least": self.least, "age": self.age})

    def play(self, rows: Rows) -> Rows:
        return _changed(
            rows, lambda row: row["age"] is not None and row["age"] >= self.least, age=self.age
        )


class Delete(Act, frozen=True):
    """A node goes, and its edges with it."""

    type: str
    id: str

    def send(self, graph: Graph, branch: str, key: str) -> Commit | None:
        statement = f"delete {self.type} where {KEYS[self.type]} = $id"
        return _mutate(
            graph, branch, key, f"query m($id: String) {{ {statement} }}", {"id": self.id}
        )

    def play(self, rows: Rows) -> Rows:
        def stays(name: str, row: Row) -> bool:
            if name == self.type:
                return bool(row["id"] != self.id)
            ends = zip(("src", "dst"), ENDS.get(name, ()), strict=False)
            return all(end != self.type or row[column] != self.id for column, end in ends)

        return {name: [row for row in found if stays(name, row)] for name, found in rows.items()}


class Unlink(Act, frozen=True):
    """The edges of a mark go."""

    type: str
    mark: int

    def send(self, graph: Graph, branch: str, key: str) -> Commit | None:
        source = f"query m() {{ delete {self.type} where mark = {self.mark} }}"
        return _mutate(graph, branch, key, source)

    def play(self, rows: Rows) -> Rows:
        left = [row for row in rows[self.type] if row["mark"] != self.mark]
        return {**rows, self.type: left}


class Load(Act, frozen=True):
    """A load."""

    mode: Literal["append", "merge", "overwrite"]
    records: list[Row]

    @property
    def empties(self) -> bool:
        return self.mode == "overwrite"

    def send(self, graph: Graph, branch: str, key: str) -> Commit | None:
        given = lines(self.records)
        return graph.load(
            given, mode=self.mode, branch=branch, engine="local", idempotency_key=key
        ).commit

    def play(self, rows: Rows) -> Rows:
        if self.mode == "overwrite":
            rows = rows | {_type_of(each): [] for each in self.records}
        return put(rows, self.records, strict=self.mode == "append")


class Write(Act, frozen=True):
    """A `Graph.write` that adds rows and removes people's edges by their ids."""

    is_keyed = False
    records: list[Row]
    gone: list[str]

    def send(self, graph: Graph, branch: str, key: str) -> Commit | None:  # noqa: ARG002
        with graph.write(branch) as writer:
            for type_ in sorted({_type_of(each) for each in self.records}):
                chosen = [each for each in self.records if _type_of(each) == type_]
                writer.append(type_, table_of(type_, chosen))
            writer.delete("Knows", self.gone)
            return writer.commit()

    def play(self, rows: Rows) -> Rows:
        left = [row for row in rows["Knows"] if row["id"] not in self.gone]
        return put({**rows, "Knows": left}, self.records, strict=True)


class Index(Act, frozen=True):
    """A build of all indexes."""

    is_keyed = False

    def send(self, graph: Graph, branch: str, key: str) -> Commit | None:  # noqa: ARG002
        return graph.maintenance.ensure_indices(branch=branch).commit


class Optimize(Act, frozen=True):
    """All small fragments joined, and all indexes over them."""

    is_keyed = False

    def send(self, graph: Graph, branch: str, key: str) -> Commit | None:  # noqa: ARG002
        return graph.maintenance.optimize(branch=branch).commit


class Branch(Act, frozen=True):
    """A new branch."""

    is_keyed = False
    source: str

    def send(self, graph: Graph, branch: str, key: str) -> Commit | None:  # noqa: ARG002
        graph.branches.create(branch, from_=self.source)
        return None


class Unbranch(Act, frozen=True):
    """A branch goes."""

    is_keyed = False

    def send(self, graph: Graph, branch: str, key: str) -> Commit | None:  # noqa: ARG002
        graph.branches.delete(branch)
        return None


class Deed(msgspec.Struct, frozen=True):
    """An act of one process on a branch."""

    token: str
    """Its actor, and its key."""
    branch: str
    act: (
        Insert
        | Update
        | Grow
        | Delete
        | Unlink
        | Load
        | Write
        | Index
        | Optimize
        | Branch
        | Unbranch
    )

    def send(self, graph: Graph) -> str | None:
        """Make it; the commit, if there is one."""
        made = self.act.send(graph.as_actor(self.token), self.branch, self.token)
        return None if made is None else made.graph_commit_id

    def text(self) -> str:
        """One line without spaces."""
        return msgspec.json.encode(self).decode()


def parse_deed(text: str) -> Deed:
    """The deed of a text."""
    return msgspec.json.decode(text, type=Deed)


def known(rows: Rows) -> Rows:
    """Rows of a graph as the model knows them."""
    return {
        name: [{**row, "id": f"~{row['mark']}"} if is_chosen(row["id"]) else row for row in found]
        for name, found in rows.items()
    }


def put(rows: Rows, records: Iterable[Row], *, strict: bool = False) -> Rows:
    """The rows with those of the records, which replace what has their ids."""
    after = {name: {row["id"]: row for row in found} for name, found in rows.items()}
    for each in records:
        row = _row(each)
        table = after[_type_of(each)]
        assert not (strict and row["id"] in table), f"{row} was there already"
        table[row["id"]] = row
    return {name: list(found.values()) for name, found in after.items()}


def _row(record: Row) -> Row:
    name, data = _type_of(record), record["data"]
    row: Row = {**dict.fromkeys(COLUMNS[name]), **data}
    if name in KEYS:
        return {"id": data[KEYS[name]], **row}
    return {"id": f"~{data['mark']}", **row, "src": record["from"], "dst": record["to"]}


def _type_of(record: Row) -> str:
    return str(record.get("type") or record["edge"])


def _changed(rows: Rows, where: Callable[[Row], bool], **values: object) -> Rows:
    people = [{**row, **values} if where(row) else row for row in rows["Person"]]
    return {**rows, "Person": people}


def _mutate(
    graph: Graph, branch: str, key: str, source: str, params: dict[str, Any] | None = None
) -> Commit | None:
    return graph.mutate(source, params=params, branch=branch, idempotency_key=key).commit


def _insert(record: Row) -> str:
    ends = {name: value for name, value in record.items() if name in ("from", "to")}
    given: Row = {**ends, **record["data"]}
    values = ", ".join(
        f"{name}: {msgspec.json.encode(value).decode()}" for name, value in given.items()
    )
    return f"insert {_type_of(record)} {{ {values} }}"
