"""Requests made from the OpenAPI document: every answer is one that the document declares.

Values are drawn from the schemas, right and wrong ones, and now and then replaced by one that the
graph knows, so that requests come past the first check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.serving import LiveServer, serving
from tests.unit.server.access_cases import NOTHING, PEOPLE, STORED
from tests.unit.server.conftest import DATA, SCHEMA

from omnigraph import Graph
from omnigraph.server.openapi import openapi_document
from omnigraph.server.routes import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis import APIOperation, Case

EXAMPLES = 6
KNOWN: dict[str, tuple[object, ...]] = {
    "graph_id": ("default",),
    "branch": ("main", " draft "),
    "from": ("main",),
    "source": ("draft",),
    "target": ("main",),
    "query": (PEOPLE, NOTHING),
    "query_source": (PEOPLE, NOTHING),
    "name": ("stored_read", "stored_write", "people"),
    "query_name": ("people",),
    "params": ({}, None),
    "snapshot": (None,),
    "data": ("", '{"type":"Person","data":{"name":"G"}}\n', "{}"),
    "mode": ("merge", "append"),
    "schema_source": (SCHEMA, "node {"),
    "entity": ("node",),
    "type": ("Person",),
    "id": ("Ada",),
    "property": ("photo", "name"),
    "type_names": (["Person"], None),
    "kind": (["node"], None),
    "limit": ("1", "8193"),
    "start": ("beginning", "now"),
    "Idempotency-Key": ("key",),
}
"""Values by the names of fields and parameters that are more likely to be understood."""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    root = tmp_path_factory.mktemp("generated")
    with Graph.init(root / "g.omni", schema=SCHEMA.replace("age", "photo: Blob?  age")) as graph:
        graph.load(DATA, mode="append")
        graph.branches.create("draft")
    (root / "stored.gq").write_text(STORED)
    with serving({"default": root / "g.omni"}, queries={"default": root / "stored.gq"}) as server:
        yield server


Requests = dict[str, "APIOperation[Any, Any, Any, Any]"]  # Any: parts that no test looks at


@pytest.fixture(scope="module")
def requests() -> Requests:
    """What makes requests, by operation; loaded here, because it takes its time."""
    import schemathesis
    from schemathesis.core.result import Ok

    schemathesis.serializer("application/x-ndjson")(
        lambda _, value: str(value).encode("utf-8", "replace")
    )
    schema = schemathesis.openapi.from_dict(openapi_document(is_open=True))
    return {
        found.ok().definition.raw["operationId"]: found.ok()
        for found in schema.get_all_operations()
        if isinstance(found, Ok)
    }


CASES = [
    (operation.operation_id, mode)
    for operation in OPERATIONS
    if operation.is_documented
    for mode in ("positive", "negative")
    # Without parameters and a body there is nothing that could be wrong.
    if mode == "positive" or operation.parameters or operation.has_body or "{" in operation.path
]


@pytest.mark.extended
@pytest.mark.parametrize(("operation_id", "mode"), CASES)
def test_every_answer_is_declared(
    live: LiveServer, requests: Requests, operation_id: str, mode: str
) -> None:
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    wanted = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
        checks.response_headers_conformance,
    ]
    made = requests[operation_id].as_strategy(generation_mode=GenerationMode(mode))

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def ask(data: st.DataObject) -> None:
        case: Case[Any] = data.draw(made)
        for part in (case.path_parameters, case.query, case.headers, case.body):
            _replace_some(data, part)
        answer = case.call(base_url=live.url, timeout=60)
        case.validate_response(answer, checks=wanted)

    ask()


def _replace_some(data: st.DataObject, part: object) -> None:
    if not isinstance(part, dict):
        return
    for name in [*part]:
        known = KNOWN.get(name)
        if known is not None and (name == "graph_id" or data.draw(st.booleans())):
            part[name] = data.draw(st.sampled_from(known))
