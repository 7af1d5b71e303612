"""Names of variables: which are bound where, and which of a clause list hang together."""

from collections.abc import Iterable, Sequence


class BoundNames:
    """Names bound in a clause list, then those outside it; an inner list costs no copy."""

    __slots__ = ("_names", "_outer")

    def __init__(self, outer: "BoundNames | None", names: Iterable[str] = ()) -> None:
        self._names = set(names)
        self._outer = outer

    def __contains__(self, name: object) -> bool:
        return name in self._names or (self._outer is not None and name in self._outer)

    def add(self, name: str) -> None:
        """Bind a name in this list."""
        self._names.add(name)


class Groups:
    """Union of names; a name never joined is a group of its own."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def find(self, name: str) -> str:
        """The name that stands for the group."""
        root = name
        while (parent := self._parent.get(root, root)) != root:
            root = parent
        while name != root:
            self._parent[name], name = root, self._parent[name]
        return root

    def join(self, left: str, right: str) -> None:
        """Make one group of two."""
        self._parent[self.find(right)] = self.find(left)

    def join_all(self, names: Sequence[str]) -> None:
        """Make one group of all."""
        for name in names[1:]:
            self.join(names[0], name)
