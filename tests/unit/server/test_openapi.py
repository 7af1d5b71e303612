"""The document describes the server that runs, and every answer is as it describes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.graph.results.envelope import _DETAILS
from omnigraph.server.bodies.errors import ErrorOutput
from omnigraph.server.openapi import openapi_document, render_document
from omnigraph.server.operations import Scope
from omnigraph.server.routes import OPERATIONS

if TYPE_CHECKING:
    import httpx
    from tests.serving import LiveServer

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / "docs" / "openapi.json"
PUBLIC = {"health", "ready"}
NAMES = {
    *("ReadOutput", "LegacyReadOutput", "ChangeOutput", "ChangeRequest", "QueryRequest"),
    *("ReadRequest", "InvokeStoredQueryRequest", "InvokeStoredQueryResponse", "IngestRequest"),
    *("IngestOutput", "GraphBatchLoadOutput", "GraphBatchDeclarationOutput", "SnapshotOutput"),
    *("SnapshotDatasetOutput", "BranchCreateOutput", "BranchDeleteOutput", "BranchListOutput"),
    *("BranchMergeOutput", "BranchCreateRequest", "BranchMergeRequest", "CommitOutput"),
    *("CommitListOutput", "CommitChangesOutput", "ChangeFeedOutput", "ChangeBlockOutput"),
    *("ChangeCauseOutput", "ChangeImageOutput", "ChangeTypeOutput", "ChangeEndpointsOutput"),
    *("ChangeBaselineOutput", "EntityChangeOutput", "ErrorOutput", "QueryCatalogEntry"),
    *("ParamDescriptor", "ParamKind", "LoadMode", "ErrorCode"),
}
"""Of models that clients are generated from; they stay."""


def test_the_document_is_the_one_that_is_kept() -> None:
    """Make it anew with `make openapi`."""
    assert COMMITTED.read_text(encoding="utf-8") == render_document(openapi_document())


def test_a_server_shows_its_document_to_everybody(denying: LiveServer, http: httpx.Client) -> None:
    with denying.client() as nobody:
        assert nobody.get("/openapi.json").json() == json.loads(COMMITTED.read_text("utf-8"))
    shown = http.get("/openapi.json").json()
    assert "securitySchemes" not in shown["components"]
    assert '"security"' not in json.dumps(shown)


def test_every_operation_has_one_id_one_tag_and_the_statuses_of_its_kind() -> None:
    document = openapi_document()
    found = [item for path in document["paths"].values() for item in path.values()]
    ids = [item["operationId"] for item in found]
    assert len(set(ids)) == len(ids) == len([each for each in OPERATIONS if each.is_documented])
    for item in found:
        assert len(item["tags"]) == 1
        is_public = item["operationId"] in PUBLIC
        assert ("security" in item) is not is_public
        if item["operationId"].startswith("cluster_"):
            assert {"401", "403", "404", "500", "503"} <= set(item["responses"])
            assert item["parameters"][0]["name"] == "graph_id"
    graph = [each for each in OPERATIONS if each.scope is Scope.GRAPH]
    assert all(each.operation_id.startswith("cluster_") for each in graph)


def test_models_have_the_names_that_clients_know_them_by() -> None:
    assert set(openapi_document()["components"]["schemas"]) >= NAMES


def test_every_reference_leads_somewhere_and_every_detail_is_described() -> None:
    text = render_document(openapi_document())
    schemas = openapi_document()["components"]["schemas"]
    for part in text.split('"$ref": "')[1:]:
        assert part.partition('"')[0].rpartition("/")[2] in schemas
    assert {name for name, _ in _DETAILS.values()} <= set(ErrorOutput.model_fields)
    for name, fields in _DETAILS.values():
        reference = json.dumps(schemas["ErrorOutput"]["properties"][name])
        model = reference.partition("schemas/")[2].partition('"')[0]
        assert set(fields) <= set(schemas[model]["properties"]), name
