"""Check the commands that an audit proposes for its findings."""

from __future__ import annotations

import pytest
from command_line import Run
from msgspec.structs import replace
from small import Json, build_node, build_pod, build_replica

from kschedctl.cli.options import Source
from kschedctl.cluster import Cluster
from kschedctl.commands.audit import audit
from kschedctl.commands.audit.next_commands import build_next_commands
from kschedctl.commands.audit.packing.report import PackingSection
from kschedctl.commands.audit.placed import RULES

HOSTNAME = "kubernetes.io/hostname"
TERM = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}
APART = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}


def add_host_port(document: Json) -> Json:
    document["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return document


def test_untolerated_taint_leads_to_a_drain() -> None:
    tainted = build_node("n1", taints=[{"key": "k", "effect": "NoSchedule"}])
    report = audit(Cluster.from_objects([tainted, build_node("n2"), build_replica("a", "n1")]), sections=["placed"])
    commands = build_next_commands(Source(demo=True), *report.sections)
    assert list(commands.values()) == [("kschedctl drain n1 --demo",)]
    assert str(report) == "OK: 1 pod may stay, but would not be placed on its node now"


def test_brief_form_ends_with_the_command_of_its_first_finding(run: Run) -> None:
    """The first pod fits now; the gravest finding with a command of its own before was about another pod."""
    lines = run("audit", "--demo", "--brief").out.splitlines()
    pod = lines[1].removeprefix("Pod ").partition(":")[0]
    assert lines[-1] == f"more: kschedctl explain {pod} --demo"


def test_first_finding_without_a_command_leads_to_its_section(run: Run) -> None:
    """No command tries out other node shapes, and all nodes were tried; the second finding leads to a drain."""
    lines = run("packing", "--demo", "--brief").out.splitlines()
    assert next(line for line in lines if line.startswith("Pool ")).startswith("Pool gpu: ")
    assert lines[-1] == "more: kschedctl audit --section packing --demo"


def test_packing_offers_to_try_all_nodes_only_if_some_were_not_tried() -> None:
    objects = [build_node(f"n{number}") for number in range(3)] + [build_replica("a", "n0")]
    section = audit(Cluster.from_objects(objects), sections=["packing"]).sections[0]
    assert isinstance(section, PackingSection)
    lines = {line for group in build_next_commands(Source(demo=True), section).values() for line in group}
    assert section.tried == section.candidates > 0
    assert not any("--nodes 0" in line for line in lines)
    partial = replace(section, tried=section.candidates - 1)
    commands = build_next_commands(Source(demo=True), partial)
    assert [*commands.values()][-1] == ("kschedctl packing --nodes 0 --demo",)


def test_advice_never_deletes_running_pods() -> None:
    """A deleted pod without room elsewhere, or without a controller, is lost; failed pods may be deleted."""
    deleting = {rule.id for rule in RULES if rule.fix.startswith("Delete")}
    assert not deleting


@pytest.mark.parametrize(
    ("pods", "rule"),
    [
        ([build_pod("a", "n1", "3"), build_pod("b", "n1", "3")], "audit-placed-overcommitted"),
        ([add_host_port(build_pod("a", "n1")), add_host_port(build_pod("b", "n1"))], "audit-placed-ports"),
        ([build_pod("a", "n1"), build_pod("b", "n1", **APART)], "audit-placed-anti-affinity"),
    ],
)
def test_pods_that_should_not_share_a_node_lead_to_a_drain(pods: list[Json], rule: str) -> None:
    report = audit(Cluster.from_objects([build_node("n1"), build_node("n2"), *pods]), sections=["placed"])
    findings = [finding for section in report.sections for finding in section.findings if finding.rule == rule]
    assert findings
    assert all("if they fit elsewhere (drain shows whether they do)" in finding.fix for finding in findings)
    commands = build_next_commands(Source(demo=True), *report.sections)
    assert {commands[finding.fingerprint] for finding in findings} == {("kschedctl drain n1 --demo",)}
