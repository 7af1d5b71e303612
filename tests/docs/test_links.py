"""Relative links of the documentation lead to files and anchors that exist."""

from pathlib import PurePosixPath

import pytest
from tests.docs.markdown import ROOT, Link, list_pages, read_page

_OUTSIDE = ("https://", "http://", "mailto:")
_LINKS = [
    link
    for page in list_pages()
    for link in read_page(page).links
    if not link.target.startswith(_OUTSIDE)
]


@pytest.mark.parametrize("link", [pytest.param(link, id=link.id) for link in _LINKS])
def test_a_link_leads_somewhere(link: Link) -> None:
    path, _, anchor = link.target.partition("#")
    assert not path.startswith("/"), "a link is relative to its page"
    target = (ROOT / link.page).parent / path if path else ROOT / link.page
    assert target.exists(), f"{target.relative_to(ROOT)} does not exist"
    assert target.resolve().is_relative_to(ROOT), "the link leaves the repository"
    if anchor:
        page = PurePosixPath(target.resolve().relative_to(ROOT)).as_posix()
        assert anchor in read_page(page).anchors, f"{page} has no anchor {anchor}"


@pytest.mark.parametrize("path", list_pages())
def test_no_anchor_is_given_twice(path: str) -> None:
    anchors = read_page(path).anchors
    assert sorted(anchors) == sorted(set(anchors))
