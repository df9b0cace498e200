"""Check that `schema` prints the schema of a kind of document."""

from __future__ import annotations

import json

import jsonschema
import pytest
from command_line import Run


def test_all_kinds_are_listed_and_printed(run: Run) -> None:
    code, out, err = run("schema")
    assert (code, err) == (0, "")
    kinds = out.split()
    assert {"explanation", "scenario", "lint-settings"} <= set(kinds)
    for kind in kinds:
        jsonschema.Draft202012Validator.check_schema(json.loads(run("schema", kind).out))


@pytest.mark.parametrize("name", ["whatif", "WhatIf", "what-if"])
def test_kind_can_be_named_as_in_the_list_or_in_a_document(run: Run, name: str) -> None:
    document = json.loads(
        run("whatif", '{"steps": [{"cordon": {"nodes": ["general-a1"]}}]}', "--demo", "-o", "json").out
    )
    jsonschema.validate(document, json.loads(run("schema", name).out))


def test_files_that_users_write_have_schemas(run: Run) -> None:
    schema = json.loads(run("schema", "scenario").out)
    jsonschema.validate({"steps": [{"cordon": {"nodes": ["a"]}}]}, schema)
    assert not jsonschema.Draft202012Validator(schema).is_valid({"steps": []})


def test_unknown_kind_is_an_error(run: Run) -> None:
    code, out, err = run("schema", "nothing")
    assert (code, out) == (2, "")
    assert err.startswith('error: no kind of document "nothing"')
