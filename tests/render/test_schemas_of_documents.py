"""Check that every document has a valid schema."""

from __future__ import annotations

import jsonschema
import pytest

from kschedctl.commands.schema import DOCUMENTS, build_schema


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_schema_is_valid(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(build_schema(DOCUMENTS[kind]))
