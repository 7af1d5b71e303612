"""Every request to a graph, built from what callers give; pure.

What a server has no route for is refused here with the way that exists, before anything is sent.
"""

from omnigraph.client.calls.branches import (
    create_branch,
    create_tag,
    delete_branch,
    delete_tag,
    get_tag,
    list_branches,
    list_tags,
    merge,
    merge_plan,
)
from omnigraph.client.calls.history import (
    baseline,
    commit_changes,
    diff,
    diff_stats,
    get_commit,
    list_commits,
    poll,
    revert,
)
from omnigraph.client.calls.reads import (
    BlobQuery,
    blob,
    blob_head,
    blob_range,
    blob_refusal,
    explain,
    export,
    query,
    require_local,
    snapshot,
)
from omnigraph.client.calls.requests import (
    json_params,
    not_served,
    one_target,
    target_text,
)
from omnigraph.client.calls.schemas import (
    apply_schema,
    plan_schema,
    schema_hash,
    schema_source,
)
from omnigraph.client.calls.server import (
    list_graphs,
)
from omnigraph.client.calls.stored import (
    get_query,
    invoke,
    list_queries,
)
from omnigraph.client.calls.writes import (
    load,
    mutate,
    refuse_load_options,
)

__all__ = [
    "BlobQuery",
    "apply_schema",
    "baseline",
    "blob",
    "blob_head",
    "blob_range",
    "blob_refusal",
    "commit_changes",
    "create_branch",
    "create_tag",
    "delete_branch",
    "delete_tag",
    "diff",
    "diff_stats",
    "explain",
    "export",
    "get_commit",
    "get_query",
    "get_tag",
    "invoke",
    "json_params",
    "list_branches",
    "list_commits",
    "list_graphs",
    "list_queries",
    "list_tags",
    "load",
    "merge",
    "merge_plan",
    "mutate",
    "not_served",
    "one_target",
    "plan_schema",
    "poll",
    "query",
    "refuse_load_options",
    "require_local",
    "revert",
    "schema_hash",
    "schema_source",
    "snapshot",
    "target_text",
]
