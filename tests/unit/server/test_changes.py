"""The change routes: pages, cursors, filters, and what they refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import httpx

G = "/graphs/default"


def test_a_commit_shows_what_it_changed(http: httpx.Client) -> None:
    commits = http.get(f"{G}/commits").json()["commits"]
    load, genesis = commits[0]["graph_commit_id"], commits[-1]["graph_commit_id"]
    body = http.get(f"{G}/commits/{load}/changes", params={"kind": "edge"}).json()
    assert set(body) == {"cause", "changes"}
    assert body["cause"]["graph_commit_id"] == load
    (change,) = body["changes"]
    assert (change["kind"], change["op"], change["type"]["name"]) == ("edge", "insert", "Knows")
    assert change["after"]["endpoints"] == {"from": "Ada", "to": "Bob"}
    assert "before" not in change
    first = http.get(f"{G}/commits/{load}/changes", params={"limit": 1}).json()
    token = first["next_page_token"]
    rest = http.get(f"{G}/commits/{load}/changes", params={"page_token": token}).json()
    assert len(first["changes"] + rest["changes"]) == 3
    refused = http.get(f"{G}/commits/{genesis}/changes")
    assert refused.status_code == 409
    assert refused.json()["change_diff_refusal"] == {
        "reason": "parentless_commit",
        "graph_commit_id": genesis,
    }
    missing = http.get(f"{G}/commits/none/changes")
    assert (missing.status_code, missing.json()["reason"]) == (404, "commit_not_found")


def test_a_poll_goes_from_the_beginning_to_the_head(http: httpx.Client) -> None:
    page = http.get(f"{G}/changes", params={"start": "beginning", "limit": 2}).json()
    assert "cursor" not in page
    last = http.get(f"{G}/changes", params={"page_token": page["next_page_token"]}).json()
    assert last["caught_up"] is True
    now = http.get(f"{G}/changes").json()
    assert now["blocks"] == []
    again = http.get(f"{G}/changes", params={"cursor": last["cursor"]}).json()
    assert again["cursor"] == last["cursor"] == now["cursor"]
    other = http.get(f"{G}/changes", params={"cursor": last["cursor"], "kind": "node"})
    assert other.status_code == 400
    assert other.json()["error"].startswith("change cursor rejected: ")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("unknown=1", 400),
        ("limit=1&limit=2", 400),
        ("limit=0", 400),
        ("limit=8193", 413),
        ("limit=x", 400),
        ("kind=other", 400),
        ("op=none", 400),
        ("type=None", 400),
        ("start=now&cursor=x", 400),
        ("start=soon", 400),
        ("cursor=x", 400),
        ("branch=", 400),
        ("branch=none", 404),
        ("kind=node&kind=edge&type=Person", 200),
    ],
)
def test_a_poll_refuses_what_it_does_not_know(http: httpx.Client, query: str, status: int) -> None:
    answer = http.get(f"{G}/changes?{query}")
    assert answer.status_code == status, answer.text
