"""Check that errors are one line, without passwords."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from command_line import build_node, build_pod

import kschedctl
from kschedctl import Cluster
from kschedctl.errors import InputError


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: kschedctl.explain(Cluster.from_objects([]), "shop/web"), "shop/web"),
        (lambda: Cluster.from_objects([{"kind": "Pod", "metadata": {"name": 1}}]), "Pod"),
        (lambda: kschedctl.explain(Cluster.from_objects([build_node("n1")]), build_pod("new", "much")), "much"),
        (
            lambda: kschedctl.explain(Cluster.from_objects([build_node("n1")], config={"kind": "X"}), build_pod("new")),
            "X",
        ),
    ],
    ids=["no such pod", "field of the wrong type", "unreadable quantity", "not a scheduler configuration"],
)
def test_errors_are_one_line(act: Callable[[], object], message: str) -> None:
    with pytest.raises(kschedctl.KschedctlError) as raised:
        act()
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_errors_contain_no_passwords() -> None:
    error = InputError("https://me:hunter2@a/b: no", where="http://hunter2@c", hint="https://d?x=y@z")
    assert str(error) == "http://c: https://a/b: no (https://z)"
