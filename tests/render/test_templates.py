"""Check ``-o jsonpath=…`` and ``-o custom-columns=…`` with the examples of kubectl's documentation."""

from __future__ import annotations

import pytest

from kschedctl.errors import UsageError
from kschedctl.render.templates import render_custom_columns, render_jsonpath

pytest.importorskip("jsonpath")

LIST = {
    "kind": "List",
    "items": [
        {
            "kind": "None",
            "metadata": {"name": "127.0.0.1", "labels": {"kubernetes.io/hostname": "127.0.0.1"}},
            "status": {"capacity": {"cpu": "4"}, "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.1"}]},
        },
        {
            "kind": "None",
            "metadata": {"name": "127.0.0.2"},
            "status": {"capacity": {"cpu": "8"}, "addresses": [{"type": "another", "address": "127.0.0.3"}]},
        },
    ],
    "users": [{"name": "myself", "user": {}}, {"name": "e2e", "user": {"username": "admin", "password": "secret"}}],
}
"""The document of https://kubernetes.io/docs/reference/kubectl/jsonpath."""


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("kind is {.kind}", "kind is List"),
        ("{['kind']}", "List"),
        ("{@.kind}", "List"),
        ("{$.kind}", "List"),
        ("{..name}", "127.0.0.1 127.0.0.2 myself e2e"),
        ("{.items[*].metadata.name}", "127.0.0.1 127.0.0.2"),
        ("{.items[*]['metadata.name', 'kind']}", "None None"),
        ('{.users[?(@.name=="e2e")].user.password}', "secret"),
        (
            "{range .items[*]}[{.metadata.name}, {.status.capacity.cpu}] {end}",
            "[127.0.0.1, 4] [127.0.0.2, 8] ",
        ),
        ('{range .items[*]}{.metadata.name}{"\\t"}{end}', "127.0.0.1\t127.0.0.2\t"),
        ("{.items[0].metadata.labels.kubernetes\\.io/hostname}", "127.0.0.1"),
        ("{.items[-1:].metadata.name}", "127.0.0.2"),
        ("{.items[-1].metadata.name}", "127.0.0.2"),
        ("{.items[0:1].status.capacity}", '{"cpu":"4"}'),
        ("{.items[*].status.addresses[*].address}", "127.0.0.1 127.0.0.3"),
        ("{range .items[*]}{range .status.addresses[*]}{.type}{end};{end}", "LegacyHostIP;another;"),
        ("{range .items[*]}{$.kind}{end}", "ListList"),
        ("<{.missing.name}>", "<>"),
        ("{'}'}{.kind}{\"{\"}", "}List{"),
    ],
)
def test_examples_of_kubectl(template: str, text: str) -> None:
    assert render_jsonpath(LIST, template) == text


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (".kind", "it has no {path}"),
        ("{.kind", "a brace is not closed"),
        ("{range .items[*]}{.kind}", "{range} without {end}"),
        ("{.kind}{end}", "{end} without {range}"),
        ("{kind}", "a path begins with a dot"),
        ("{.items[?(}", '"'),
        ("{.items[*}", '"'),
    ],
)
def test_invalid_template_is_an_error_of_one_line(template: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        render_jsonpath(LIST, template)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_control_characters_are_escaped() -> None:
    assert render_jsonpath({"kind": "\x1b[2J"}, "{.kind}") == "\\x1b[2J"


def test_columns_have_a_row_for_each_thing() -> None:
    groups = [{"verdict": "Gated", "pods": ["a/b"]}, {"verdict": "Unschedulable", "pods": ["a/c", "a/d"]}]
    document = {"kind": "PendingPods", "groups": groups}
    table = render_custom_columns(document, "VERDICT:.verdict,PODS:{.pods[*]},CAUSE:cause")
    assert table.splitlines() == [
        "VERDICT         PODS      CAUSE",
        "Gated           a/b       <none>",
        "Unschedulable   a/c,a/d   <none>",
    ]
    assert render_custom_columns({"kind": "Explanation", "pod": "a/b"}, "POD:.pod") == "POD\na/b\n"
    with pytest.raises(UsageError, match="each column is NAME:path"):
        render_custom_columns(document, "VERDICT")
