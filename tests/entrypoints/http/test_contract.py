"""The contract is the truth: committed as generated, sound, and its examples are real."""

import difflib
import json
from typing import Any

import pytest
from openapi_spec_validator import validate

from entrypoints.http.contract import OPERATIONS, openapi_json
from entrypoints.http.operation import Operation
from entrypoints.http.problem_types import PROBLEMS
from tests.entrypoints.http.api import ANY_VERSION, Api, a_path_of
from tests.entrypoints.http.recorder import CONTRACT
from tests.tree import ROOT

WITH_BODY = [operation for operation in OPERATIONS if operation.body]


def document() -> dict[str, Any]:
    """Return the generated contract."""
    found: dict[str, Any] = json.loads(openapi_json())
    return found


def test_the_committed_contract_is_what_the_code_serves() -> None:
    """The file differs in nothing from the generated document; `fencepost openapi --write` renews it."""
    committed = (ROOT / "contracts" / "openapi.json").read_text(encoding="utf-8")
    difference = difflib.unified_diff(
        committed.splitlines(), openapi_json().decode().splitlines(), "committed", "generated", lineterm="", n=1
    )
    assert "\n".join(difference) == ""


def test_the_contract_is_sound_openapi() -> None:
    """The document is valid OpenAPI 3.1."""
    validate(document())


def test_every_operation_is_named_once() -> None:
    """Operation ids are unique, and so are pairs of method and path."""
    assert len({operation.id for operation in OPERATIONS}) == len(OPERATIONS)
    assert len({(operation.method, operation.path) for operation in OPERATIONS}) == len(OPERATIONS)


def test_every_link_leads_to_an_operation_and_names_its_parameters() -> None:
    """A link's target exists and takes every parameter that the link gives it."""
    targets = {operation.id: operation for operation in OPERATIONS}
    for operation in OPERATIONS:
        for reply in operation.replies:
            for link in reply.links.values():
                target = document()["paths"][targets[link.operation_id].path]
                stated = target[targets[link.operation_id].method.lower()]["parameters"]
                names = {parameter.get("name") or parameter["$ref"].rpartition("/")[2] for parameter in stated}
                assert {name.rpartition(".")[2] for name in link.parameters} <= names, link


def test_every_object_in_a_request_is_closed() -> None:
    """The schema of a body, and of every object in it, refuses members that it does not name."""
    schemas = document()["components"]["schemas"]
    for name in ("NewTask", "TaskPatch", "ExportRequest", "TaskFilter", "CsvOptions"):
        assert schemas[name]["additionalProperties"] is False, name


def test_every_problem_has_an_example_that_is_a_problem() -> None:
    """The examples are made by the code that answers, and name their own page."""
    examples = document()["components"]["examples"]
    assert {slug: example["value"]["type"] for slug, example in examples.items()} == {
        slug: f"/problems/{slug}" for slug in PROBLEMS
    }


async def test_the_contract_is_served_as_it_is_committed(api: Api) -> None:
    """GET /openapi.json answers the bytes of the committed file, and 304 to who has them."""
    answer = await api.client.get("/openapi.json")
    assert answer.content == (ROOT / "contracts" / "openapi.json").read_bytes()
    again = await api.client.get("/openapi.json", headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda operation: operation.id)
async def test_the_example_of_every_body_is_accepted(operation: Operation, api: Api) -> None:
    """What the contract shows as a body can be sent as it stands, for each media type."""
    assert operation.body is not None
    path = await a_path_of(api, operation)
    for media_type, example in operation.body.examples.items():
        content = example if isinstance(example, str) else json.dumps(example)
        headers = {"Content-Type": media_type, "Idempotency-Key": media_type.replace("/", "-"), **ANY_VERSION}
        answer = await api.send(operation.method, path, content=content, headers=headers)
        assert answer.is_success, answer.text


def test_the_contract_is_what_the_recorder_holds_answers_against() -> None:
    """The recorder reads the committed file."""
    assert CONTRACT.raw_schema == document()
