"""Every operation of the server with a request for it and the actions that it asks for.

A new operation without a case here fails `test_access_table.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnigraph.graph.access import Action

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

G = "/graphs/default"
PEOPLE = "query people() { match { $p: Person } return { $p.name } }"
NOTHING = 'query none() { update Person set { age: 1 } where name = "nobody" }'
STORED = """
query stored_read() { match { $p: Person } return { $p.name } }
query stored_write() { update Person set { age: 1 } where name = "nobody" }
"""
COMMIT = {"Omnigraph-If-Graph-Commit": "01K0000000000000000000000A"}
LINES = {"Content-Type": "application/x-ndjson"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessCase:
    """How an operation is called on a branch, and what it asks for.

    The requests change nothing, whoever sends them: they name what is not there, or match nothing.
    """

    path: Callable[[str], str]
    needs: frozenset[Action]
    body: Callable[[str], Mapping[str, Any]] | None = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    has_branch: bool = True
    """Whether the branch of the request decides; otherwise it is `main`, or there is none."""
    hides: bool = False
    """A refusal is told as something that does not exist."""

    def request(self, branch: str) -> dict[str, Any]:
        """The arguments of a request."""
        sent: dict[str, Any] = {"headers": dict(self.headers)}
        if self.body is not None:
            sent["json"] = self.body(branch)
        if self.content is not None:
            sent["content"] = self.content
        return sent


def _case(
    path: str,
    *needs: Action,
    body: Callable[[str], Mapping[str, Any]] | None = None,
    content: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    has_branch: bool = True,
    hides: bool = False,
) -> AccessCase:
    return AccessCase(
        path=lambda branch: path.replace("BRANCH", branch),
        needs=frozenset(needs),
        body=body,
        content=content,
        headers=headers or {},
        has_branch=has_branch,
        hides=hides,
    )


def _on(**fields: object) -> Callable[[str], Mapping[str, Any]]:
    return lambda branch: {**fields, "branch": branch}


_MUTATION = _on(query=NOTHING)
_QUERY = _on(query=PEOPLE)
_LOAD = _on(data="")

PUBLIC = {"health": "/healthz", "ready": "/readyz", "openapi": "/openapi.json"}
"""Operations that ask nobody."""

SERVER = {
    "listGraphs": _case("/graphs", Action.GRAPH_LIST, has_branch=False),
    "metrics": _case("/metrics", Action.METRICS, has_branch=False),
}


def graph_cases(commits: Mapping[str, str]) -> dict[str, AccessCase]:
    """Operations of a graph; `commits` gives a commit that was made on each branch.

    A case behind a slash is one more way to call the operation before it.
    """
    return {
        "cluster_query": _case(f"{G}/query", Action.READ, body=_QUERY),
        "cluster_read": _case(f"{G}/read", Action.READ, body=_QUERY),
        "cluster_explain": _case(f"{G}/explain", Action.READ, body=_QUERY),
        "cluster_getSnapshot": _case(f"{G}/snapshot?branch=BRANCH", Action.READ),
        "cluster_getSchema": _case(f"{G}/schema", Action.READ, has_branch=False),
        "cluster_applySchema": _case(
            f"{G}/schema/apply",
            Action.SCHEMA_APPLY,
            body=lambda _: {"schema_source": "node {"},
            has_branch=False,
        ),
        "cluster_mutate": _case(f"{G}/mutate", Action.CHANGE, body=_MUTATION),
        "cluster_change": _case(f"{G}/change", Action.CHANGE, body=_MUTATION),
        "cluster_mutate_if_graph_commit": _case(
            f"{G}/mutate/if-graph-commit", Action.CHANGE, body=_MUTATION, headers=COMMIT
        ),
        "cluster_load": _case(f"{G}/load", Action.CHANGE, body=_LOAD),
        "cluster_ingest": _case(f"{G}/ingest", Action.CHANGE, body=_LOAD),
        "cluster_loadNdjson": _case(
            f"{G}/load/ndjson?branch=BRANCH", Action.CHANGE, content=b"", headers=LINES
        ),
        "cluster_load/from": _case(
            f"{G}/load",
            Action.CHANGE,
            Action.BRANCH_CREATE,
            body=lambda branch: {"data": "", "branch": f"gone-{branch}", "from": "nowhere"},
        ),
        "cluster_loadNdjson/from": _case(
            f"{G}/load/ndjson?branch=gone-BRANCH&from=nowhere",
            Action.CHANGE,
            Action.BRANCH_CREATE,
            content=b"",
            headers=LINES,
        ),
        "cluster_listBranches": _case(f"{G}/branches", Action.READ, has_branch=False),
        "cluster_createBranch": _case(
            f"{G}/branches", Action.BRANCH_CREATE, body=lambda branch: {"name": branch}
        ),
        "cluster_deleteBranch": _case(f"{G}/branches/gone-BRANCH", Action.BRANCH_DELETE),
        "cluster_mergeBranches": _case(
            f"{G}/branches/merge",
            Action.BRANCH_MERGE,
            body=lambda branch: {"source": "nowhere", "target": branch},
        ),
        "cluster_planMerge": _case(
            f"{G}/branches/merge/plan",
            Action.READ,
            body=lambda branch: {"source": branch, "target": branch},
        ),
        "cluster_listTags": _case(f"{G}/tags", Action.READ, has_branch=False),
        "cluster_createTag": _case(
            f"{G}/tags",
            Action.BRANCH_CREATE,
            body=lambda branch: {"name": branch, "branch": "nowhere"},
        ),
        "cluster_getTag": _case(f"{G}/tags/none", Action.READ, has_branch=False),
        "cluster_deleteTag": _case(f"{G}/tags/gone-BRANCH", Action.BRANCH_DELETE),
        "cluster_revertCommit": AccessCase(
            path=lambda branch: f"{G}/commits/{commits[branch]}/revert",
            needs=frozenset({Action.CHANGE, Action.READ}),
            # Another head, so that nothing is undone.
            body=_on(if_commit="01K0000000000000000000000A"),
        ),
        "cluster_diff": _case(f"{G}/diff?from=BRANCH&to=BRANCH", Action.READ),
        "cluster_planSchema": _case(
            f"{G}/schema/plan",
            Action.READ,
            body=lambda _: {"schema_source": "node {"},
            has_branch=False,
        ),
        "cluster_listCommits": _case(f"{G}/commits?branch=BRANCH", Action.READ),
        "cluster_getCommit": _case(f"{G}/commits/none", Action.READ, has_branch=False),
        "cluster_getCommitChanges": AccessCase(
            path=lambda branch: f"{G}/commits/{commits[branch]}/changes",
            needs=frozenset({Action.READ}),
            hides=True,
        ),
        "cluster_pollChanges": _case(f"{G}/changes?branch=BRANCH", Action.READ),
        "cluster_captureChangeBaseline": _case(f"{G}/changes/baseline", Action.EXPORT, body=_on()),
        "cluster_export": _case(f"{G}/export", Action.EXPORT, body=_on()),
        "cluster_getBlob": _case(
            f"{G}/blob?entity=node&type=Person&id=Ada&property=name&branch=BRANCH", Action.READ
        ),
        "cluster_headBlob": _case(
            f"{G}/blob?entity=node&type=Person&id=Ada&property=name&branch=BRANCH", Action.READ
        ),
        "cluster_list_queries": _case(f"{G}/queries", Action.READ, has_branch=False),
        "cluster_invoke_query": _case(
            f"{G}/queries/stored_read", Action.INVOKE_QUERY, Action.READ, body=_on(), hides=True
        ),
        "cluster_invoke_query/mutation": _case(
            f"{G}/queries/stored_write", Action.INVOKE_QUERY, Action.CHANGE, body=_on(), hides=True
        ),
        "cluster_invoke_query_if_graph_commit": _case(
            f"{G}/queries/stored_write/if-graph-commit",
            Action.INVOKE_QUERY,
            Action.CHANGE,
            body=_on(),
            headers=COMMIT,
            hides=True,
        ),
    }
