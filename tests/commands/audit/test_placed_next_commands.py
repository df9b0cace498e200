"""Check the commands that the section "placed" of an audit proposes."""

from __future__ import annotations

from small import node, replica

from kschedctl.cli.options import Source
from kschedctl.cluster import Cluster
from kschedctl.commands.audit import audit
from kschedctl.commands.audit.next_commands import build_next_commands


def test_a_taint_that_pods_do_not_tolerate_leads_to_a_drain() -> None:
    tainted = node("n1", taints=[{"key": "k", "effect": "NoSchedule"}])
    report = audit(Cluster.from_objects([tainted, node("n2"), replica("a", "n1")]), sections=["placed"])
    commands = build_next_commands(Source(demo=True), *report.sections)
    assert list(commands.values()) == [("kschedctl drain n1 --demo",)]
    assert str(report) == "OK: 1 pod may stay, but would not be placed on its node now"
