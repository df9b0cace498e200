"""Run the printed commands of fixes of node groups, such as a higher maximum or a label of the template, and replay."""

from __future__ import annotations

import json
import shlex
from copy import deepcopy
from typing import Any

import pytest

import kschedctl
from kschedctl.autoscaling.node_groups.discovery import UserGroups
from kschedctl.commands.explain.one_pod import find_or_create_target
from kschedctl.commands.remedies import find_remedies_with_room
from kschedctl.fixes.new_node import find_autoscaler_fixes, predict_new_node
from kschedctl.fixes.search import RemedyCriteria

Json = dict[str, Any]
NOW = "2026-06-01T12:00:00Z"
KEY = "cluster-api-autoscaler-node-group-"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"


def build_machines(kind: str, project: str, least: int, most: int, replicas: int) -> Json:
    annotations = {f"{project}/{KEY}min-size": str(least), f"{project}/{KEY}max-size": str(most)}
    annotations |= {f"{CAPACITY}/cpu": "4", f"{CAPACITY}/memory": "8Gi"}
    version = "v1beta1"
    return {
        "apiVersion": f"{project}/{version}",
        "kind": kind,
        "metadata": {"name": "blue", "namespace": "machines", "annotations": annotations},
        "spec": {"replicas": replicas},
    }


def build_machine(kind: str, project: str) -> list[Json]:
    """Build the machine of node n1, and the MachineSet between it and a MachineDeployment."""

    def owned(kind: str, name: str, by: str, of: str, **more: Any) -> Json:
        owner = {"kind": by, "name": of, "apiVersion": f"{project}/v1beta1", "uid": "u"}
        metadata = {"name": name, "namespace": "machines", "ownerReferences": [owner]}
        return {"apiVersion": f"{project}/v1beta1", "kind": kind, "metadata": metadata, **more}

    there = {"status": {"nodeRef": {"name": "n1"}}}
    if kind == "MachineSet":
        return [owned("Machine", "m", "MachineSet", "blue", **there)]
    between = owned("MachineSet", "blue-1", kind, "blue", spec={"replicas": 1})
    return [between, owned("Machine", "m", "MachineSet", "blue-1", **there)]


def build_waiting_pod(**spec: Any) -> Json:
    container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": "2"}}}
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "d", "uid": "1", "creationTimestamp": "2026-06-01T11:00:00Z"},
        "spec": {"containers": [container], **spec},
        "status": {"conditions": [refused]},
    }


def build_full_node(cpu: str = "1") -> list[Json]:
    """Build a list with a small node."""
    room = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-06-01T10:00:00Z"}
    status = {"allocatable": room, "capacity": room, "conditions": [ready]}
    return [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": status}]


@pytest.mark.parametrize(
    ("kind", "project", "plural"),
    [
        ("MachineDeployment", "cluster.x-k8s.io", "machinedeployments"),
        ("MachineSet", "cluster.x-k8s.io", "machinesets"),
        ("MachineSet", "machine.openshift.io", "machinesets"),
    ],
)
def test_group_of_the_cluster_is_annotated(kind: str, project: str, plural: str) -> None:
    """The group is at its maximum of 1. A node comes once the command has set the annotation."""
    taken = build_waiting_pod(nodeName="n1")
    taken["metadata"] |= {"name": "taken", "uid": "2"}
    objects = [
        build_machines(kind, project, 0, 1, 1),
        *build_full_node("3"),
        taken,
        build_waiting_pod(),
        *build_machine(kind, project),
    ]
    report = kschedctl.explain(kschedctl.Cluster.from_objects(objects), "d/web", remedies=True, now=NOW)
    (fix,) = (remedy for remedy in report.remedies if remedy.kinds == ("ChangeNodeGroup",))
    assert fix.summary == f"Raise the maximum of node group {kind}/machines/blue from 1 to 2"
    assert fix.opens == (f"a new node of {kind}/machines/blue",)
    (command,) = fix.commands
    assert fix in kschedctl.remedies(kschedctl.Cluster.from_objects(objects), "d/web").remedies
    tool, verb, resource, name, *options, annotation = shlex.split(command)
    assert (tool, verb, resource, name) == ("kubectl", "annotate", f"{plural}.{project}", "blue")
    assert options == ["-n", "machines", "--overwrite"]
    changed = deepcopy(objects)
    key, _, value = annotation.partition("=")
    assert key in changed[0]["metadata"]["annotations"]
    changed[0]["metadata"]["annotations"][key] = value
    after = kschedctl.explain(kschedctl.Cluster.from_objects(changed), "d/web", now=NOW)
    assert after.new_node is not None
    assert after.new_node.would_launch


def list_group_fixes(group: Json, **spec: Any) -> list[tuple[str, tuple[str, ...]]]:
    cluster = kschedctl.Cluster.from_objects([*build_full_node(), build_waiting_pod(**spec)])
    asked, given = find_or_create_target(cluster, "d/web"), UserGroups([group])
    told = predict_new_node(asked, NOW, given)
    assert told is not None
    return [(fix.summary, fix.commands) for fix in find_autoscaler_fixes(asked, told, NOW, given)]


def build_empty_group(cpu: str = "4", most: int = 3, **labels: str) -> Json:
    capacity = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    status = {"allocatable": capacity, "capacity": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
    template = {"metadata": {"name": "t", "labels": labels}, "status": status}
    return {"id": "b", "min": 0, "max": most, "target": 0, "nodes": [], "template": template}


def test_remedies_are_of_the_requested_kinds() -> None:
    asked = find_or_create_target(kschedctl.Cluster.from_objects([*build_full_node(), build_waiting_pod()]), "d/web")

    def of(**criteria: Any) -> list[str]:
        given = UserGroups([build_empty_group(most=0)])
        report = find_remedies_with_room(asked, RemedyCriteria(**criteria), now=NOW, user_groups=given)
        return [fix.summary for fix in report.remedies if fix.kinds == ("ChangeNodeGroup",)]

    assert of() == of(only=frozenset({"ChangeNodeGroup"})) == ["Raise the maximum of node group b from 0 to 1"]
    assert of(by="author") == of(without=frozenset({"ChangeNodeGroup"})) == []


def test_template_lacks_the_label_of_a_role() -> None:
    assert list_group_fixes(build_empty_group(), nodeSelector={"team": "shop"}) == [
        (
            "Add the node-template tag for label team=shop to node group b, whose template lacks it",
            (
                "# in the definition of node group b: add the tag "
                "k8s.io/cluster-autoscaler/node-template/label/team=shop",
            ),
        )
    ]


@pytest.mark.parametrize(
    ("selected", "accepted", "added"),
    [
        ({}, (("b", "c"), ("a", "b")), ("b",)),  # both expressions of a term have to hold
        ({"team": "b"}, (("a", "b"),), ("b",)),
        ({"team": "c"}, (("a", "b"),), ()),  # no value satisfies nodeSelector and the term
        ({}, (("a",), ("b",)), ()),
    ],
)
def test_conditions_on_one_label_must_hold_together(
    selected: dict[str, str], accepted: tuple[tuple[str, ...], ...], added: tuple[str, ...]
) -> None:
    expressions = [{"key": "team", "operator": "In", "values": list(values)} for values in accepted]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    summaries = [
        summary for summary, _ in list_group_fixes(build_empty_group(), nodeSelector=selected, affinity=affinity)
    ]
    assert [summary.split("label team=")[1][0] for summary in summaries if "label team=" in summary] == list(added)


def test_labels_that_describe_a_node_are_not_added() -> None:
    assert list_group_fixes(build_empty_group(), nodeSelector={"topology.kubernetes.io/zone": "a"}) == []


def test_label_is_no_fix_if_more_is_missing() -> None:
    assert list_group_fixes(build_empty_group(cpu="1"), nodeSelector={"team": "shop"}) == []


def test_maximum_is_no_fix_if_it_is_not_the_only_obstacle() -> None:
    assert list_group_fixes(build_empty_group(cpu="1", most=0)) == []


def test_pod_that_gets_a_new_node_needs_no_fix() -> None:
    assert list_group_fixes(build_empty_group()) == []


def test_trying_fixes_does_not_change_the_group() -> None:
    group = build_empty_group()
    before = json.dumps(group)
    list_group_fixes(group, nodeSelector={"team": "shop"})
    assert json.dumps(group) == before


@pytest.mark.parametrize(
    ("message", "agrees"),
    [
        ("pod didn't trigger scale-up: 1 max node group size reached", True),
        ("pod didn't trigger scale-up: 1 in backoff after failed scale-up", False),
    ],
)
def test_last_event_of_the_autoscaler_is_compared(message: str, agrees: bool) -> None:
    """Only its last event about the pod counts. Events of kube-scheduler are ignored."""
    about = {"kind": "Pod", "namespace": "d", "name": "web", "uid": "1"}
    events = [
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"web.{at}", "namespace": "d"},
            "involvedObject": about,
            "reason": reason,
            "message": said,
            "lastTimestamp": f"2026-06-01T11:{at}:00Z",
        }
        for at, reason, said in (
            (10, "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 not ready for scale-up"),
            (20, "NotTriggerScaleUp", message),
            (30, "FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu."),
        )
    ]
    cluster = kschedctl.Cluster.from_objects([*build_full_node(), build_waiting_pod(), *events])
    told = predict_new_node(find_or_create_target(cluster, "d/web"), NOW, UserGroups([build_empty_group(most=0)]))
    assert told is not None
    assert told.message == "pod didn't trigger scale-up: 1 max node group size reached"
    assert told.said is not None
    assert (told.said.message, told.said.at, told.said.agrees) == (message, "2026-06-01T11:20:00Z", agrees)
