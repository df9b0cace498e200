"""Check that schemas of CustomResourceDefinitions are skipped and that everything else stays on its line."""

from __future__ import annotations

import pytest

from kschedctl.errors import InputError
from kschedctl.sources.documents.documents import Content, blank_schemas, parse_documents, parse_without_schemas

DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: webs.shop.example}
spec:
  group: shop.example
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: |-
          versions:

            of the web
        properties: {versions: {type: array}}
    served: true

  names: {kind: Web, plural: webs}
status:
  storedVersions: [v1]
"""
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  versions:\n  - kept\n"


def build_content(text: str) -> Content:
    return Content("f.yaml", text, is_json=False)


@pytest.mark.parametrize("marker", ["---\n", "--- # next\n"])
def test_only_schemas_of_definitions_are_skipped(marker: str) -> None:
    text = DEFINITION + marker + POD + marker + DEFINITION.replace("versions:", "validation:")
    (first, pod, second), whole = parse_without_schemas(build_content(text)), list(parse_documents(build_content(text)))
    assert [first.line, pod.line, second.line] == [each.line for each in whole]
    assert pod == whole[1]
    for found, full, left_out in ((first, whole[0], "versions"), (second, whole[2], "validation")):
        spec = {key: value for key, value in full.value["spec"].items() if key != left_out}
        assert found.value == {**full.value, "spec": spec}


@pytest.mark.parametrize(
    "text",
    [
        POD,
        DEFINITION.replace("kind: C", "kind: MyC"),
        DEFINITION.replace("\n", "\n  ").replace("apiV", "kind: List\nitems:\n- apiV", 1),
    ],
    ids=["a pod", "another kind", "a list"],
)
def test_other_documents_are_unchanged(text: str) -> None:
    assert blank_schemas(text) == text


def test_indentation_by_four_and_crlf() -> None:
    text = DEFINITION.replace("  ", "    ").replace("\n", "\r\n")
    (found,) = parse_without_schemas(build_content(text))
    assert found.value["spec"] == {"group": "shop.example", "names": {"kind": "Web", "plural": "webs"}}


def test_alias_into_a_skipped_schema_is_resolved() -> None:
    text = DEFINITION.replace("served: true", "served: &yes true") + "extra: *yes\n"
    (found,) = parse_without_schemas(build_content(text))
    assert found.value["extra"] is True


def test_errors_elsewhere_keep_their_line() -> None:
    with pytest.raises(InputError, match="document 2, line 23"):
        parse_without_schemas(build_content(DEFINITION + "---\na: [\nb: 1\n"))
