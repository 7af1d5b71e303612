"""A part of a path is what stands between two slashes as they were sent."""

from __future__ import annotations

import pytest

from omnigraph.server.path_template import PathTemplate, parts_of


@pytest.mark.parametrize(
    ("template", "path", "found"),
    [
        ("/commits/{id}", "/commits/rel%2F2", {"id": "rel/2"}),
        ("/commits/{id}", "/commits/rel%2Fchanges", {"id": "rel/changes"}),
        ("/commits/{id}/changes", "/commits/rel%2Fchanges", None),
        ("/commits/{id}/changes", "/commits/a%252F/changes", {"id": "a%2F"}),
        ("/commits/{id}", "/commits/rel/2", None),
        ("/commits/{id}", "/commits/", None),
        ("/commits/{id}", "/%63ommits/x", {"id": "x"}),
        ("/commits", "/commits/", None),
        ("/commits", "/a%2Fcommits", None),
        ("/branches/{name:path}", "/branches/a/b", {"name": "a/b"}),
        ("/branches/{name:path}", "/branches/a%2Fb/c", {"name": "a/b/c"}),
        ("/branches/{name:path}", "/branches/", {"name": ""}),
        ("/branches/{name:path}", "/branches", None),
    ],
)
def test_a_slash_in_a_name_begins_no_part(
    template: str, path: str, found: dict[str, str] | None
) -> None:
    parts = parts_of({"type": "http", "path": "", "raw_path": path.encode()})
    assert PathTemplate(template).match(parts) == found


def test_without_the_path_as_it_was_sent_the_decoded_one_is_taken() -> None:
    assert parts_of({"type": "http", "path": "/commits/a b"}) == ["commits", "a b"]
