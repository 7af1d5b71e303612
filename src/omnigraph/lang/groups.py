"""Connected groups of names: which variables of a clause list hang together."""

from collections.abc import Sequence


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
