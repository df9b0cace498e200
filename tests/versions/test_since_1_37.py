"""Check that 1.37 answers as 1.36 wherever no row of the version table applies, over the golden cases of 1.36."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from golden_cases import FAMILIES, answer, iter_family_lines, list_differences

import kschedctl
from kschedctl.api.kube_version import VersionMix
from kschedctl.cluster import Cluster, Gap
from kschedctl.commands.versions import compare_versions
from kschedctl.commands.whatif import build_version_settings
from kschedctl.commands.whatif.causes import TwoVersions
from kschedctl.scheduler.framework.events import POD, ChangedObject
from kschedctl.scheduler.framework.feature_gates import ALL_GATE_STAGES, get_stage
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.queued_pods import DELETED

Json = dict[str, Any]
ROWS = compare_versions("1.36", "1.37").changes
SMALL_FAMILY = 50
"""The largest number of cases of a family at which all of them run."""
FOUND = " preemption: found a potential placement for pod on node "


def adapt_answer(case: Json, mix: VersionMix | None = None) -> Json:
    """Return the answer without preemption messages and the constant score of StorageCapacityScoring."""
    want, got = case["want"], answer({**case, "kubeVersion": "1.37"}, mix)
    got["message"] = (got["message"] or "").split(FOUND)[0] or None if mix is None else got["message"]
    for part in ("score", "normalized") if mix is None else ():
        scores = got.get(part) or {}
        if "VolumeBinding" not in (want.get(part) or {}) and not any(scores.get("VolumeBinding", {}).values()):
            scores.pop("VolumeBinding", None)
    return got


def list_faulty_gates(message: str) -> list[list[str]]:
    """Return the gates that each rejected flag names."""
    return [[gate for gate in re.findall(r"\w+", fault) if gate in ALL_GATE_STAGES] for fault in message.split("; ")]


def test_each_change_has_its_basis() -> None:
    changes = compare_versions("1.36", "1.37").changes
    basis = {change.upstream: change.basis for change in changes if change.sort == "rule"}
    assert (basis["#137981"], basis["#139161"]) == ("release notes", "source")
    assert {change.basis for change in compare_versions("1.30", "1.36").changes} == {"answers"}


@pytest.mark.parametrize("family", FAMILIES)
def test_all_differences_are_rows_of_the_version_table(family: str) -> None:
    """Except for these rows, 1.37 answers as the real 1.36 did, and it rejects flags only for gates in the table.

    A quarter of a large family is enough, because tests/test_golden.py runs all of its cases as 1.36.
    """
    lines = iter_family_lines(family)
    for case in map(json.loads, lines if len(lines) <= SMALL_FAMILY else lines[::4]):
        want, got = case["want"], adapt_answer(case)
        if "kubeVersion" in case or not list_differences(want, got):
            continue
        if got["verdict"] == "Refused" != want["verdict"]:
            changed = [
                any(get_stage(gate, 36) != get_stage(gate, 37) for gate in gates)
                for gates in list_faulty_gates(got["message"])
            ]
            assert all(changed), got["message"]
        else:
            gates = case.get("featureGates", {})
            first, second = (Cluster(kube_version=version, feature_gates=gates) for version in ("1.36", "1.37"))
            changes = TwoVersions(first, second, ROWS).describe_changes()
            assert not list_differences(want, adapt_answer(case, VersionMix("1.36", frozenset(changes)))), case["id"]


NODE = {
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "n"}},
    "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}},
}


def build_pod(name: str, priority: int, **spec: Any) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    spec |= {"priority": priority, "containers": [container]}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "d"}, "spec": spec}


SAID = {
    "v1.36": ("1.36", 1, 1, "0/1 nodes are available: 1 Insufficient cpu."),
    "a cluster of three nodes": (
        "1.37",
        3,
        1,
        "0/3 nodes are available: 3 Insufficient cpu. preemption: found a potential placement for pod on node n3, "
        "preempting 1 victims",
    ),
    "a cluster of two nodes": (
        "1.37",
        2,
        2,
        "0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node n2, "
        "preempting 2 victims",
    ),
}
"""Version, number of nodes, number of victims, and the event of a real cluster from a tutorial, without node names."""


@pytest.mark.parametrize("name", SAID)
def test_preemption_message(name: str) -> None:
    """On all nodes but the last the pod would preempt more important pods."""
    version, nodes, victims, said = SAID[name]
    all_of_one = {"cpu": str(victims)}
    status = {"allocatable": {"memory": "1Gi", "pods": "10", **all_of_one}}
    names = [f"n{i + 1}" for i in range(nodes)]
    running = [
        build_pod(f"{node}-{i}", int(node != names[-1]), nodeName=node) for node in names for i in range(victims)
    ]
    preempts = build_pod("p", 9)
    preempts["spec"]["containers"][0]["resources"]["requests"] = all_of_one
    objects = [*({**NODE, "metadata": {"name": node}, "status": status} for node in names), *running, preempts]
    report = kschedctl.explain(kschedctl.Cluster.from_objects(objects, kube_version=version), "d/p")
    assert (report.message, report.undecided, report.unknown) == (said, False, ())


@pytest.mark.parametrize(("version", "verdict"), [("1.33", True), ("1.34", False), ("1.36", False), ("1.37", True)])
def test_namespaces_excluded_by_a_selector(version: str, verdict: bool) -> None:
    """As in upstream's #141526, both pods are in a namespace that the pod's own selector excludes."""
    selector = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": selector}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    namespace = {"kind": "Namespace", "metadata": {"name": "d", "labels": {"team": "a"}}}
    room = {**NODE, "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "10"}}}
    objects = [room, namespace, build_pod("other", 0, nodeName="n"), build_pod("p", 0, affinity=affinity)]
    report = kschedctl.explain(kschedctl.Cluster.from_objects(objects, kube_version=version), "d/p")
    assert (report.verdict == "Schedulable", report.undecided) == (verdict, False)
    if not verdict:
        assert (report.message or "").startswith(
            "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
        )


@pytest.mark.parametrize(
    ("parent", "gates", "undecided"),
    [
        (None, {}, False),
        ("all", {}, False),
        (None, {"CompositePodGroup": True, "TopologyAwareWorkloadScheduling": True}, False),
        ("all", {"CompositePodGroup": True, "TopologyAwareWorkloadScheduling": True}, False),
    ],
)
def test_composite_groups_are_decided(parent: str | None, gates: dict[str, bool], undecided: bool) -> None:
    """See also tests/scheduler/pod_groups/test_groups_of_groups.py."""
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}, "parentCompositePodGroupName": parent}
    group = {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "d"}, "spec": spec}
    grouped = build_pod("p", 0, schedulingGroup={"podGroupName": "g"})
    objects = [NODE, group, grouped, build_pod("alone", 0)]
    gates = {"GenericWorkload": True, **gates}
    cluster = kschedctl.Cluster.from_objects(objects, kube_version="1.37", feature_gates=gates)
    assert kschedctl.explain(cluster, "d/p").undecided is undecided
    assert not kschedctl.explain(cluster, "d/alone").undecided


@pytest.mark.parametrize(("grouped", "undecided"), [(True, True), (False, False)])
def test_queue_order_of_groups_is_undecided(grouped: bool, undecided: bool) -> None:
    """The placement of a group's pods affects the pods behind it."""
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    group = {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "d"}, "spec": spec}
    waiting = build_pod("p", 0, **({"schedulingGroup": {"podGroupName": "g"}} if grouped else {}))
    cluster = kschedctl.Cluster.from_objects(
        [NODE, group, waiting], kube_version="1.37", feature_gates={"GenericWorkload": True}
    )
    assert kschedctl.whatif(cluster, None).undecided is undecided


@pytest.mark.parametrize(("gates", "affected"), [({"GenericWorkload": True}, ["victims"]), ({}, [])])
def test_victims_of_a_group_are_undecided(gates: dict[str, bool], affected: list[str]) -> None:
    """A pod without a group would preempt a pod of a group."""
    group = {
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "d"},
        "spec": {"schedulingPolicy": {"basic": {}}},
    }
    member = build_pod("member", 0, nodeName="n", schedulingGroup={"podGroupName": "g"})
    objects = [NODE, group, member, build_pod("p", 9)]
    cluster = kschedctl.Cluster.from_objects(objects, kube_version="1.37", feature_gates=gates)
    report = kschedctl.explain(cluster, "d/p")
    assert (report.verdict, report.undecided) == ("Unschedulable", False)
    assert [unknown.affects for unknown in report.unknown] == affected


@pytest.mark.parametrize(("version", "woken"), [("1.36", False), ("1.37", True)])
def test_deletion_of_a_pod_in_one_of_two_terms_wakes_the_pod(version: str, woken: bool) -> None:
    """#139161: a pod with anti-affinity to apps a and b may fit on the node of a deleted pod of app a."""
    terms = [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}} for app in ("a", "b")
    ]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    other = build_pod("other", 0, nodeName="n")
    other["metadata"]["labels"] = {"app": "a"}
    cluster = kschedctl.Cluster.from_objects([NODE, other, build_pod("p", 0, affinity=affinity)], kube_version=version)
    scheduler = Scheduler(cluster)
    hints = scheduler.get_registrations("default-scheduler").find_hints(InterPodAffinity.name, DELETED)
    pods = scheduler.view.pods
    info, gone = (pods.infos[pods.info[pods.index[key]]] for key in ("d/p", "d/other"))
    assert any(ask is None or ask(info, ChangedObject(POD, gone.pod, None), scheduler.view) for ask in hints) is woken


CLASS = {
    "kind": "DeviceClass",
    "apiVersion": "resource.k8s.io/v1",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": "true"}}]},
}
SLICE = {
    "kind": "ResourceSlice",
    "apiVersion": "resource.k8s.io/v1",
    "metadata": {"name": "s"},
    "spec": {
        "driver": "gpu.example.com",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n",
        "devices": [{"name": "gpu-0"}],
    },
}


def build_claiming_pod(class_name: str) -> list[Json]:
    """Build a pod that claims a device of a class."""
    requests = [{"name": "r", "exactly": {"deviceClassName": class_name}}]
    metadata = {"name": "c", "namespace": "d", "uid": "c"}
    claim = {"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1", "metadata": metadata}
    claim |= {"spec": {"devices": {"requests": requests}}}
    return [claim, build_pod("p", 0, resourceClaims=[{"name": "c", "resourceClaimName": "c"}])]


@pytest.mark.parametrize(
    ("class_name", "verdict", "undecided"), [("gpu", "Schedulable", True), ("no", "Unschedulable", False)]
)
def test_unread_taint_rules_only_remove_devices(class_name: str, verdict: str, undecided: bool) -> None:
    """A pod whose DeviceClass does not exist fits nowhere with any rules, and an upgrade does not help it."""
    cluster = replace(
        Cluster.from_objects([NODE, CLASS, SLICE, *build_claiming_pod(class_name)], assume_complete=True),
        gaps={"DeviceTaintRule": Gap("were not read")},
    )
    report = kschedctl.explain(replace(cluster, kube_version="1.37"), "d/p")
    assert (report.verdict, report.undecided) == (verdict, undecided)
    assert [each.kind for each in report.unknown] == ["DeviceTaintRule"]
    upgrade = kschedctl.whatif(cluster, None, build_version_settings(("1.36", "1.37")))
    assert (upgrade.changes, upgrade.undecided) == ((), True)
    assert [each.kind for each in upgrade.unknown] == ["DeviceTaintRule"]
