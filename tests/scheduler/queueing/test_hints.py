"""Check queueing hints beyond the golden cases: versions and special cases."""

from __future__ import annotations

import pytest
from small_changes import (
    Json,
    build_addition,
    build_anti_affinity,
    build_deletion,
    build_node,
    build_pod,
    build_update,
    replay_event,
)

import kschedctl

BIG = {"cpu": "8", "memory": "32Gi", "pods": "110"}


def list_hints(event: Json, *objects: Json, version: str = "1.36") -> Json:
    """Return the hints of all rejectors for the only event."""
    (found,) = replay_event(event, *objects, version=version)["events"]
    return found["hints"]


LARGE = build_pod(cpu="2")
HATED = build_pod("hated", {"app": "db"}, nodeName="n1")


@pytest.mark.parametrize(
    ("version", "hint"),
    [("1.36", "Queue"), ("1.35", "QueueSkip")],
)
def test_deletion_of_a_pod_with_anti_affinity_to_this_pod(version: str, hint: str) -> None:
    hates = build_pod("hates", nodeName="n1", affinity=build_anti_affinity("web"))
    waiting = build_pod(labels={"app": "web"})
    found = list_hints(build_deletion(hates), build_node(labels={"zone": "a"}), hates, waiting, version=version)
    assert found == {"InterPodAffinity": hint}


@pytest.mark.parametrize(("version", "hint"), [("1.36", "QueueSkip"), ("1.33", "QueueSkip"), ("1.32", "Queue")])
def test_changed_label_that_no_term_names(version: str, hint: str) -> None:
    before, after = build_node(labels={"zone": "a"}), build_node(labels={"zone": "a", "other": "x"})
    waiting = build_pod(affinity=build_anti_affinity("db"))
    assert list_hints(build_update(before, after), before, HATED, waiting, version=version) == {
        "InterPodAffinity": hint
    }


@pytest.mark.parametrize(("version", "moved"), [("1.36", True), ("1.33", True), ("1.32", False)])
def test_deleted_nominated_pod_wakes_the_pod(version: str, moved: bool) -> None:
    promised = build_pod("promised", cpu="1", priority=10, status={"nominatedNodeName": "n1"})
    found = replay_event(build_deletion(promised), build_node(), promised, build_pod(cpu="500m"), version=version)
    assert found["moved"] is moved
    assert [event["event"] for event in found["events"]] == ["AssignedPodDelete"] * moved


def test_deleted_nominated_pod_of_lower_priority_does_not_wake() -> None:
    promised = build_pod("promised", priority=-10, status={"nominatedNodeName": "n1"})
    found = replay_event(build_deletion(promised), build_node(), promised, LARGE)
    assert (found["events"][0]["hints"], found["moved"]) == ({"NodeResourcesFit": "Queue"}, False)


@pytest.mark.parametrize(
    ("event", "hint"),
    [
        (build_addition(build_node("n2", cpu="2")), "Queue"),
        (build_addition(build_node("n2", cpu="1999m")), "QueueSkip"),
        (build_update(build_node(cpu="1"), build_node(cpu="2")), "Queue"),
        (build_update(build_node(cpu="3"), build_node(cpu="2")), "QueueSkip"),
        (build_update(build_pod("r", cpu="1", nodeName="n1"), build_pod("r", cpu="500m", nodeName="n1")), "Queue"),
        (build_deletion(build_pod("r", nodeName="n1")), "Queue"),
    ],
    ids=["large enough", "too small", "grows", "shrinks", "resized", "a pod leaves"],
)
def test_hints_about_free_resources(event: Json, hint: str) -> None:
    assert list_hints(event, build_node(), LARGE) == {"NodeResourcesFit": hint}


def test_events_of_other_pending_pods_are_ignored() -> None:
    other = build_pod("other", cpu="3")
    for event in (
        build_update(other, build_pod("other", cpu="1")),
        build_deletion(other),
        build_addition(build_pod("new")),
    ):
        assert replay_event(event, build_node(), LARGE, other)["events"] == []


def test_binding_is_an_addition_and_termination_a_deletion() -> None:
    other = build_pod("other", cpu="3")
    bound = build_pod("other", cpu="3", nodeName="n1")
    ended = {**bound, "status": {"phase": "Succeeded"}}
    for event, label in (
        (build_update(other, bound), "AssignedPodAdd"),
        (build_update(bound, ended), "AssignedPodDelete"),
    ):
        (found,) = replay_event(event, build_node(), LARGE)["events"]
        assert found["event"] == label


@pytest.mark.parametrize(
    ("taints", "events"),
    [
        ([{"key": "a", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}], ["NodeUpdateNodeTaint"]),
        ([{"key": "a", "effect": "NoSchedule", "value": ""}], []),
    ],
    ids=["a time that scheduling does not read", "an empty value"],
)
def test_events_are_derived_from_the_documents(taints: list[Json], events: list[str]) -> None:
    before, after = build_node(taints=[{"key": "a", "effect": "NoSchedule"}]), build_node(taints=taints)
    assert [
        each["event"] for each in replay_event(build_update(before, after), before, build_pod())["events"]
    ] == events


def test_uncordoned_node_loses_its_taint_too() -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    before = build_node(unschedulable=True, taints=[taint])
    found = replay_event(build_update(before, build_node()), before, build_pod())
    assert [each["event"] for each in found["events"]] == ["NodeUpdateNodeTaint"] * 2
    assert found["events"][0]["hints"] == {"NodeUnschedulable": "Queue"}


def test_ungated_pod_may_be_gated_by_another_plugin() -> None:
    gates, claims = [{"name": "g"}], [{"name": "c", "resourceClaimName": "missing"}]
    waiting = build_pod(schedulingGates=gates)
    released = build_pod()
    assert replay_event(build_update(waiting, released), build_node(), waiting)["after"] == "active"
    held = build_pod(schedulingGates=gates, resourceClaims=claims)
    found = replay_event(build_update(held, build_pod(resourceClaims=claims)), build_node(), held)
    assert (found["gatingPlugin"], found["moved"]) == ("DynamicResources", False)


NODE_FOR_IT = build_node("n2", {"pool": "x"}, cpu="4")
WITHOUT_HINTS = [
    ("it fits there", build_addition(NODE_FOR_IT), True),
    ("another pool", build_addition(build_node("n2", {"pool": "y"}, cpu="4")), False),
    ("too small", build_addition(build_node("n2", {"pool": "x"}, cpu="1")), False),
    (
        "a taint",
        build_addition(build_node("n2", {"pool": "x"}, cpu="4", taints=[{"key": "a", "effect": "NoSchedule"}])),
        False,
    ),
    (
        "no room left",
        build_update(build_node(labels={"pool": "x"}, cpu="2"), build_node(labels={"pool": "x"}, cpu="2500m")),
        False,
    ),
    ("a pod leaves", build_deletion(build_pod("r", nodeName="n1")), True),
    ("a pod comes", build_addition(build_pod("r", nodeName="n1")), False),
    (
        "its labels",
        build_update(build_pod(cpu="2", nodeSelector={"pool": "x"}), build_pod("p", {"a": "b"}, cpu="2")),
        True,
    ),
    ("its status", build_update(build_pod(cpu="2"), build_pod(cpu="2", status={"phase": "Pending"})), False),
]
"""Name, event, and whether the pod moves. Before 1.32 every event that a rejector registered for counts."""


@pytest.mark.parametrize(("event", "moved"), [case[1:] for case in WITHOUT_HINTS], ids=[c[0] for c in WITHOUT_HINTS])
def test_without_hints(event: Json, moved: bool) -> None:
    there = build_pod("there", cpu="1", nodeName="n1")
    objects = build_node(labels={"pool": "x"}, cpu="2"), there, build_pod(cpu="2", nodeSelector={"pool": "x"})
    found = replay_event(event, *objects, version="1.31")
    assert (found["moved"], found["undecided"]) == (moved, False)
    assert all(hint != "QueueSkip" for each in found["events"] for hint in each["hints"].values())


@pytest.mark.parametrize(
    ("version", "resize", "gate", "moved"),
    [
        ("1.30", "InProgress", True, True),
        ("1.30", "Deferred", True, False),
        ("1.30", "InProgress", False, False),
        ("1.31", "InProgress", True, False),  # there the requests are compared
    ],
)
def test_resize_status_wakes_pods_in_1_30(version: str, resize: str, gate: bool, moved: bool) -> None:
    """AssignedPodUpdated of 1.30 takes the resize status as a sign of free resources.

    Nothing else of the pod changes.
    """
    before = build_pod("r", cpu="1", nodeName="n1")
    event = build_update(before, {**before, "status": {"resize": resize}})
    gates = {"InPlacePodVerticalScaling": gate}
    found = replay_event(event, build_node(), LARGE, before, version=version, gates=gates)
    assert (found["moved"], found["undecided"]) == (moved, False)


LABELS = [
    ("a node comes", build_addition(build_node("n2")), ["NodeAdd"], ["NodeAdd"]),
    ("a node goes", build_deletion(build_node()), [], ["NodeDelete"]),
    (
        "it is uncordoned",
        build_update(build_node(unschedulable=True), build_node()),
        ["NodeSpecUnschedulableChange"],
        ["NodeUpdateNodeTaint"],
    ),
    (
        "taints",
        build_update(build_node(taints=[{"key": "a", "effect": "NoSchedule"}]), build_node()),
        ["NodeTaintChange"],
        ["NodeUpdateNodeTaint"],
    ),
    (
        "room",
        build_update(build_node(cpu="1"), build_node(cpu="2")),
        ["NodeAllocatableChange"],
        ["NodeUpdateNodeAllocatable"],
    ),
    ("labels", build_update(build_node(), build_node(labels={"a": "b"})), ["NodeLabelChange"], ["NodeUpdateNodeLabel"]),
    ("a pod comes", build_addition(build_pod("r", nodeName="n1")), ["AssignedPodAdd"], ["AssignedPodAdd"]),
    (
        "a pod's labels",
        build_update(build_pod("r", nodeName="n1"), build_pod("r", {"a": "b"}, nodeName="n1")),
        ["PodLabelChange"],
        ["AssignedPodUpdatePodLabel"],
    ),
    (
        "its own labels",
        build_update(build_pod(cpu="2"), build_pod("p", {"a": "b"}, cpu="2")),
        ["PodUpdate"],
        ["UnschedulablePodUpdatePodLabel"],
    ),
    (
        "a volume",
        build_addition({"kind": "PersistentVolume", "metadata": {"name": "v"}}),
        ["PvAdd"],
        ["PersistentVolumeAdd"],
    ),
    (
        "a class",
        build_addition(
            {"kind": "StorageClass", "metadata": {"name": "c"}, "volumeBindingMode": "WaitForFirstConsumer"}
        ),
        ["StorageClassAdd"],
        ["storage.k8s.io/StorageClassAdd"],
    ),
]
"""Event, its labels in framework/events.go and eventhandlers.go of v1.31, and in v1.32."""


@pytest.mark.parametrize(("event", "older", "newer"), [case[1:] for case in LABELS], ids=[c[0] for c in LABELS])
def test_event_labels(event: Json, older: list[str], newer: list[str]) -> None:
    for version, labels in (("1.31", older), ("1.32", newer)):
        found = replay_event(event, build_node(), build_pod(cpu="2"), version=version)
        assert [each["event"] for each in found["events"]] == labels


def test_pod_updates_have_one_label_before_1_31() -> None:
    event = build_update(build_pod("r", nodeName="n1"), build_pod("r", {"a": "b"}, nodeName="n1"))
    found = replay_event(event, build_node(), build_pod(cpu="2"), version="1.30")
    assert [each["event"] for each in found["events"]] == ["AssignedPodUpdate"]


@pytest.mark.parametrize(("version", "moved"), [("1.30", False), ("1.31", True)])
def test_added_pod_wakes_pods_with_spread_constraints(version: str, moved: bool) -> None:
    """In 1.30 an added pod wakes only pods whose affinity it matches."""
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    spread["labelSelector"] = {"matchLabels": {"app": "p"}}
    waiting = build_pod("p", {"app": "p"}, topologySpreadConstraints=[spread])
    found = replay_event(
        build_addition(build_pod("r", {"app": "p"}, nodeName="n1")), build_node(), waiting, version=version
    )
    assert found["unschedulablePlugins"] == ["PodTopologySpread"]
    assert found["moved"] == moved


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (None, "event: expected an object with action, old and new"),
        ({"action": "Grow"}, "expected Add, Update or Delete"),
        ({"action": "Add", "old": NODE_FOR_IT}, "event, new: expected an object"),
        ({"action": "Update", "old": build_node("a"), "new": build_node("b")}, "must be the same object"),
        ({"action": "Update", "old": build_node("a"), "new": build_pod("a")}, "the same kind in old and new"),
        ({"action": "Add", "new": {"kind": "Node"}}, "event, Node, metadata.name: required"),
        (build_addition(build_node(cpu="much")), "Node n1, status.allocatable"),
        (build_addition(build_pod("q", cpu="-1", nodeName="n1")), "Pod d/q: resource cpu"),
        ({"action": "Add", "new": {"kind": "Node", "metadata": []}}, "got `array`"),
    ],
)
def test_invalid_events_are_errors(event: Json, problem: str) -> None:
    with pytest.raises(kschedctl.KschedctlError, match=problem):
        replay_event(event, build_node(), LARGE)


def test_pods_that_nothing_can_wake() -> None:
    for waiting, problem in (
        (build_pod(nodeName="n1"), "is not pending"),
        (build_pod(status={"phase": "Failed"}), "is not pending"),
        (build_pod(schedulerName="other"), "no scheduler profile handles"),
        (
            {**build_pod(), "metadata": {**build_pod()["metadata"], "deletionTimestamp": "2024-01-01T00:00:00Z"}},
            "is being deleted",
        ),
    ):
        with pytest.raises(kschedctl.KschedctlError, match=problem):
            replay_event(build_addition(NODE_FOR_IT), build_node(), waiting)


def test_unread_kinds_cause_no_event() -> None:
    found = replay_event(build_addition({"kind": "ConfigMap", "metadata": {"name": "c"}}), build_node(), LARGE)
    assert (found["events"], found["moved"]) == ([], False)


@pytest.mark.parametrize(
    ("status", "hint"),
    [({"allocation": {"devices": {}}}, "Queue"), ({"reservedFor": []}, "QueueSkip"), ({}, "QueueSkip")],
    ids=["allocated nothing", "an empty list", "as it was"],
)
def test_claim_with_an_empty_allocation_is_allocated(status: Json, hint: str) -> None:
    """A pointer to an empty struct differs from nil, but an empty list does not (apiequality.Semantic.DeepEqual)."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "d", "uid": "c"},
        "spec": {"devices": {"requests": [request]}},
        "status": {},
    }
    waiting = build_pod(resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    gpu = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    assert list_hints(build_update(claim, {**claim, "status": status}), build_node(), waiting, claim, gpu) == {
        "DynamicResources": hint
    }


def build_grouped_pod(name: str) -> Json:
    return build_pod(name, schedulingGroup={"podGroupName": "g"})


@pytest.mark.parametrize(
    ("least", "event", "after"),
    [
        (2, build_addition(build_grouped_pod("q")), "active"),
        (2, build_addition(build_pod("q")), "unschedulable"),
        (3, build_addition(build_grouped_pod("q")), "unschedulable"),
        (2, build_addition({**build_grouped_pod("q"), "metadata": {"name": "q", "namespace": "e"}}), "unschedulable"),
    ],
    ids=["completes it", "of no group", "one is missing still", "of another namespace"],
)
def test_pod_that_completes_a_gang_wakes_the_others(least: int, event: Json, after: str) -> None:
    """addPodToSchedulingQueue adds the pod to its group before any event is handled (eventhandlers.go)."""
    gang = {"schedulingPolicy": {"gang": {"minCount": least}}}
    group = {"kind": "PodGroup", "apiVersion": "scheduling.k8s.io/v1alpha2", "spec": gang}
    group["metadata"] = {"name": "g", "namespace": "d"}
    gates = {"GenericWorkload": True, "GangScheduling": True}
    found = replay_event(event, build_node(), build_grouped_pod("p"), group, gates=gates)
    assert (found["gatingPlugin"], found["before"], found["after"]) == ("GangScheduling", "unschedulable", after)


def test_device_backed_requests_are_not_a_scale_down() -> None:
    """extractPodScaleDown ignores UseDRANodeAllocatableResourceClaimStatus (framework/events.go)."""
    given = {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "c", "resources": {"cpu": "1"}}]}
    event = build_update(build_pod("r", nodeName="n1", status=given), build_pod("r", nodeName="n1"))
    found = replay_event(event, build_node(), LARGE, gates={"DRANodeAllocatableResources": True})
    assert [each["event"] for each in found["events"]] == ["AssignedPodUpdate"]


def taint_rule(effect: str, **selector: str) -> Json:
    spec = {"deviceSelector": selector, "taint": {"key": "k", "effect": effect}}
    metadata = {"name": "r"}
    return {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": metadata, "spec": spec}


BROKEN = taint_rule("NoSchedule", driver="gpu")


@pytest.mark.parametrize(
    ("event", "gate", "events"),
    [
        (build_deletion(BROKEN), True, 2),
        (build_deletion(BROKEN), False, 0),
        (build_addition(BROKEN), True, 2),
        (build_addition(taint_rule("NoSchedule", driver="gpu", device="d1")), True, 1),
        (build_addition(taint_rule("NoSchedule", driver="other")), True, 0),
        (build_update(BROKEN, taint_rule("NoExecute", driver="gpu")), True, 2),
        (build_update(BROKEN, {**BROKEN, "metadata": {"name": "r", "labels": {"a": "b"}}}), True, 0),
    ],
    ids=["it goes", "without the gate", "it comes", "of one device", "of another driver", "other effect", "as it was"],
)
def test_device_taint_rule_is_an_update_of_resource_slices(event: Json, gate: bool, events: int) -> None:
    """The scheduler gets no event about the rule, but one for each slice whose devices have new taints (syncSlice)."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": {"devices": {"requests": [request]}}}
    claim["metadata"] = {"name": "c", "namespace": "d", "uid": "c"}
    gpu = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    slices = []
    for number in (1, 2):
        pool = {"name": f"p{number}", "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"d{number}"}]
        spec = {"driver": "gpu", "pool": pool, "nodeName": "elsewhere", "devices": devices}
        piece = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"s{number}"}}
        slices.append({**piece, "spec": spec})
    waiting = build_pod(resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    gates = {"DRADeviceTaints": gate, "DRADeviceTaintRules": gate}
    found = replay_event(event, build_node(), waiting, claim, gpu, *slices, gates=gates)
    heard = [(each["event"], each["hints"]) for each in found["events"]]
    assert heard == [("resource.k8s.io/ResourceSliceUpdate", {"DynamicResources": "Queue"})] * events
    assert found["moved"] == bool(events)


@pytest.mark.parametrize(
    ("event", "after"),
    [
        (build_deletion(LARGE), ""),
        (build_update(LARGE, build_pod(cpu="2", nodeName="n1")), ""),
        (build_update(LARGE, build_pod(cpu="2", status={"phase": "Failed"})), ""),
        (build_update(LARGE, {**LARGE, "metadata": {**LARGE["metadata"], "finalizers": ["x"]}}), "unschedulable"),
        (build_deletion({**LARGE, "metadata": {**LARGE["metadata"], "uid": "earlier"}}), "unschedulable"),
    ],
    ids=["deleted", "bound by another", "ended", "otherwise updated", "an earlier one of its name"],
)
def test_pod_that_is_no_longer_pending_leaves_the_queue(event: Json, after: str) -> None:
    """deletePodFromSchedulingQueue is called after all events of the change (eventhandlers.go)."""
    found = replay_event(event, build_node(), LARGE)
    assert (found["before"], found["after"], found["moved"]) == ("unschedulable", after, not after)
