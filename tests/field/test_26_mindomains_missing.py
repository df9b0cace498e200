"""Two replicas whose zone spread has no effect, as only one zone is eligible (aws-samples/appmod-blueprints#892)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import kschedctl
from kschedctl.api.json_values import JsonObject
from kschedctl.reports.findings import Finding

FOLDER = Path(__file__).parent / "26-mindomains-missing"
OUTAGE = "both pods are in zone a, the only one that taints and node selection allow: losing it is an outage"
SECOND_ZONE = "Add nodes in a second zone with pool=sys, and "


def find_topology_problems(name: str) -> list[Finding]:
    return list(kschedctl.topology(kschedctl.Cluster.from_paths([FOLDER / name])).findings)


@pytest.mark.parametrize(
    ("name", "severity", "fix"),
    [
        ("in.yaml", "warning", "set minDomains: 2 in the constraint"),
        ("skew5.yaml", "warning", "set maxSkew: 1 and minDomains: 2 in the constraint"),
        (
            "nospread.yaml",
            "note",
            "add a DoNotSchedule spread constraint over topology.kubernetes.io/zone with maxSkew: 1 and minDomains: 2",
        ),
    ],
)
def test_losing_the_only_zone_is_an_outage(name: str, severity: str, fix: str) -> None:
    (finding,) = find_topology_problems(name)
    assert (finding.message, finding.severity, finding.fix) == (OUTAGE, severity, f"{SECOND_ZONE}{fix}")


def test_audit_reports_the_problem() -> None:
    report = kschedctl.audit(kschedctl.Cluster.from_paths([FOLDER / "in.yaml"]))
    (section,) = (section for section in report.sections if section.title.startswith("Topology"))
    assert [finding.message for finding in section.findings] == [OUTAGE]


def test_advice_changes_the_placement_of_replicas() -> None:
    """With minDomains 2 the second replica waits for a second zone, and is placed there once the zone has a node."""
    objects: list[JsonObject] = yaml.safe_load((FOLDER / "in.yaml").read_text())["items"]
    second = objects[-1]
    second["spec"]["topologySpreadConstraints"][0]["minDomains"] = 2
    del second["spec"]["nodeName"]
    second["status"] = {"phase": "Pending"}
    report = kschedctl.explain(kschedctl.Cluster.from_objects(objects), "plat/ctl-1-2")
    assert report.verdict == "Unschedulable"
    assert "the minimum counts as 0 because there is 1 domain, fewer than minDomains 2" in report.headline
    added = yaml.safe_load(yaml.safe_dump(objects[0]).replace("sys1", "sys2").replace("zone: a", "zone: b"))
    report = kschedctl.explain(kschedctl.Cluster.from_objects([*objects, added]), "plat/ctl-1-2")
    assert (report.verdict, report.feasible) == ("Schedulable", ("sys2",))
