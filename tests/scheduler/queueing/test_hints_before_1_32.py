"""Check the queueing hints of 1.30 and 1.31, where a gate enables them.

By EventsToRegister and the hints of each plugin, eventhandlers.go and internal/queue/scheduling_queue.go (v1.30.14,
v1.31.14): what is expected is read off there by hand.
"""

from __future__ import annotations

from typing import Any

import pytest
import small_changes
from small_changes import Json, build_addition, build_anti_affinity, build_deletion, build_node, build_pod, build_update

import kschedctl
from kschedctl.scheduler.engine.diagnosis import Rejectors
from kschedctl.scheduler.event_handling import POD_DELETED, Occurrence
from kschedctl.scheduler.framework.events import POD, ChangedObject
from kschedctl.scheduler.queueing.queue_plugins import does_event_concern_pod
from kschedctl.scheduler.scheduler import Scheduler

ON = {"SchedulerQueueingHints": True}


def build_object(kind: str, name: str = "x", **fields: Any) -> Json:
    return {"kind": kind, "metadata": {"name": name}, **fields}


def build_claim(name: str, **fields: Any) -> Json:
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "d"}, "spec": {}, **fields}


def build_affinity(app: str) -> Json:
    return {"podAffinity": build_anti_affinity(app)["podAntiAffinity"]}


def build_spread(app: str) -> Json:
    selector = {"matchLabels": {"app": app}}
    return {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


def replay_event_with_hints(event: Json, *objects: Json, version: str, gates: dict[str, bool] | None = None) -> Json:
    """Replay the event with queueing hints, which are off by default before 1.32."""
    return small_changes.replay_event(event, *objects, version=version, gates={**ON, **(gates or {})})


def list_hints(found: Json) -> list[tuple[str, str]]:
    """Return each event with the hint of the only rejector."""
    return [(each["event"], *each["hints"].values()) for each in found["events"]]


def build_taint(key: str) -> Json:
    return {"key": key, "effect": "NoSchedule"}


LARGE = build_pod(cpu="2")
PICKY = build_pod(nodeSelector={"disk": "ssd"})
SSD = {"disk": "ssd"}
WITH_CLAIM = build_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
SPREADING = build_pod("p", {"app": "p"}, topologySpreadConstraints=[build_spread("p")])
HATING = build_pod(affinity=build_anti_affinity("db"))
DB = build_pod("db", {"app": "db"}, nodeName="n1")
ZONE = {"zone": "a"}
ANNOTATED = {"annotations": {"a": "b"}}


def annotate(found: Json) -> Json:
    return {**found, "metadata": {**found["metadata"], **ANNOTATED}}


QUEUE, SKIP, NOT = "Queue", "QueueSkip", "NotRegistered"
NODES: list[tuple[str, Json, tuple[Json, ...], list[tuple[str, str]], bool]] = [
    # any change of a node that matches counts, but only once the node would take the pod
    (
        "affinity",
        build_update(build_node(labels=SSD), annotate(build_node(labels=SSD))),
        (build_node(), PICKY),
        [("NodeAnnotationChange", QUEUE)],
        True,
    ),
    (
        "another label",
        build_update(build_node(), build_node(labels={"disk": "hdd"})),
        (build_node(), PICKY),
        [("NodeLabelChange", SKIP)],
        False,
    ),
    (
        "affinity, no room",
        build_addition(build_node("n2", SSD, cpu="10m")),
        (build_node(), PICKY),
        [("NodeAdd", QUEUE)],
        False,
    ),
    (
        "affinity, tainted",
        build_addition(build_node("n2", SSD, taints=[build_taint("a")])),
        (build_node(), PICKY),
        [("NodeAdd", QUEUE)],
        False,
    ),
    (
        "room",
        build_update(build_node(cpu="3"), annotate(build_node(cpu="3"))),
        (build_node(), LARGE),
        [("NodeAnnotationChange", QUEUE)],
        True,
    ),
    (
        "less room",
        build_update(build_node(cpu="3"), build_node(cpu="2500m")),
        (build_node(), LARGE),
        [("NodeAllocatableChange", QUEUE)],
        True,
    ),
    (
        "no room",
        build_update(build_node(cpu="500m"), build_node(cpu="1")),
        (build_node(), LARGE),
        [("NodeAllocatableChange", SKIP)],
        False,
    ),
    (
        "not cordoned",
        build_update(build_node("n2"), annotate(build_node("n2"))),
        (build_node(unschedulable=True), build_pod()),
        [("NodeAnnotationChange", QUEUE)],
        True,
    ),
    (
        "by name",
        build_update(build_node("n2"), annotate(build_node("n2"))),
        (build_node(), build_pod(affinity={"nodeAffinity": {}}, nodeSelector=SSD)),
        [("NodeAnnotationChange", SKIP)],
        False,
    ),
    (
        "spread: the keys are there",
        build_update(build_node("n2", ZONE), build_node("n2", {**ZONE, "other": "x"})),
        (build_node(), SPREADING),
        [("NodeLabelChange", QUEUE)],
        True,
    ),
    ("spread: no such keys", build_addition(build_node("n2")), (build_node(), SPREADING), [("NodeAdd", SKIP)], False),
]
"""Name, event, objects, the events and hints of both versions, and whether the pod moved."""


@pytest.mark.parametrize("version", ["1.30", "1.31"])
@pytest.mark.parametrize(
    ("event", "objects", "hints", "moved"), [case[1:] for case in NODES], ids=[c[0] for c in NODES]
)
def test_node_events(version: str, event: Json, objects: tuple[Json, ...], hints: list[Any], moved: bool) -> None:
    found = replay_event_with_hints(event, *objects, version=version)
    assert (list_hints(found), found["moved"], found["undecided"], found["notReplayed"]) == (hints, moved, False, [])


OWN_MORE = {"tolerations": [{"key": "a", "operator": "Exists"}]}
TAINTED = build_node(taints=[build_taint("a")])
DIFFER: list[tuple[str, Json, tuple[Json, ...], dict[str, tuple[list[tuple[str, str]], bool]]]] = [
    (
        "taints of a node that keeps the pod away",
        build_update(TAINTED, annotate(TAINTED)),
        (TAINTED, build_pod()),
        {"1.30": ([("NodeAnnotationChange", QUEUE)], False), "1.31": ([("NodeAnnotationChange", SKIP)], False)},
    ),
    (
        "a node without the taint",
        build_update(build_node("n2", taints=[build_taint("b")]), build_node("n2")),
        (TAINTED, build_pod()),
        {"1.30": ([("NodeTaintChange", QUEUE)], True), "1.31": ([("NodeTaintChange", QUEUE)], True)},
    ),
    (
        "another toleration of its own",  # in 1.30 any update is worth a try
        build_update(build_pod(), build_pod(**OWN_MORE)),
        (TAINTED, build_pod()),
        {
            "1.30": ([("PodUpdate", NOT)], True),
            "1.31": ([("AssignedPodUpdate", QUEUE)], True),
            "1.32": ([("UnschedulablePodUpdatePodToleration", QUEUE)], True),
        },
    ),
    (
        "labels of its own, to taints",
        build_update(build_pod(), build_pod(labels={"a": "b"})),
        (TAINTED, build_pod()),
        {
            "1.30": ([("PodUpdate", NOT)], True),
            "1.31": ([("PodLabelChange", SKIP)], False),
            "1.32": ([("UnschedulablePodUpdatePodLabel", NOT)], False),
        },
    ),
    (
        "labels of its own, to spreading",
        build_update(SPREADING, build_pod("p", {"app": "q"}, topologySpreadConstraints=[build_spread("p")])),
        (build_node(), SPREADING),
        {
            "1.30": ([("PodUpdate", SKIP)], True),
            "1.31": ([("PodLabelChange", SKIP)], False),
            "1.32": ([("UnschedulablePodUpdatePodLabel", QUEUE)], True),
        },
    ),
    (
        "a toleration does not help with a cordon",
        build_update(build_pod(), build_pod(tolerations=[{"operator": "Exists"}])),
        (build_node(unschedulable=True), build_pod()),
        {
            "1.31": ([("AssignedPodUpdate", NOT)], False),
            "1.32": ([("UnschedulablePodUpdatePodToleration", QUEUE)], True),
        },
    ),
    (
        "its last gate",
        build_update(build_pod(schedulingGates=[{"name": "g"}]), build_pod()),
        (build_node(), build_pod(schedulingGates=[{"name": "g"}])),
        {"1.30": ([("PodUpdate", NOT)], True), "1.31": ([("AssignedPodUpdate", QUEUE)], True)},
    ),
    (
        "one of two gates",  # in 1.30 PreEnqueue refuses it again
        build_update(
            build_pod(schedulingGates=[{"name": "g"}, {"name": "h"}]), build_pod(schedulingGates=[{"name": "h"}])
        ),
        (build_node(), build_pod(schedulingGates=[{"name": "g"}, {"name": "h"}])),
        {"1.30": ([("PodUpdate", NOT)], False), "1.31": ([("AssignedPodUpdate", SKIP)], False)},
    ),
    (
        "a pod with labels that anti-affinity is not about",
        build_deletion(build_pod("web", {"app": "web"}, nodeName="n1")),
        (build_node(labels=ZONE), DB, build_pod("web", {"app": "web"}, nodeName="n1"), HATING),
        {"1.30": ([("AssignedPodDelete", QUEUE)], True), "1.31": ([("AssignedPodDelete", SKIP)], False)},
    ),
    (
        "a node in no topology of the terms",
        build_addition(build_node("n2")),
        (build_node(labels=ZONE), DB, HATING),
        {"1.30": ([("NodeAdd", QUEUE)], True), "1.31": ([("NodeAdd", SKIP)], False)},
    ),
    (
        "taints of a node in one of them",
        build_update(build_node("n2", ZONE, taints=[build_taint("b")]), build_node("n2", ZONE)),
        (build_node(labels=ZONE), DB, HATING),
        {
            "1.30": ([("NodeTaintChange", QUEUE)], True),
            "1.31": ([("NodeTaintChange", QUEUE)], True),
        },
    ),
    (
        "taints of a node in none of them",
        build_update(build_node("n2", taints=[build_taint("b")]), build_node("n2")),
        (build_node(labels=ZONE), DB, HATING),
        {
            "1.30": ([("NodeTaintChange", QUEUE)], True),
            "1.31": ([("NodeTaintChange", SKIP)], False),
            "1.32": ([("NodeUpdateNodeTaint", QUEUE)], True),  # the scheduler adds that, without a hint
        },
    ),
    (
        "a pod comes that spreading counts",  # 1.30 tells only those whose affinity is about it
        build_addition(build_pod("r", {"app": "p"}, nodeName="n1")),
        (build_node(), SPREADING),
        {"1.30": ([("AssignedPodAdd", QUEUE)], False), "1.31": ([("AssignedPodAdd", QUEUE)], True)},
    ),
    (
        "a pod that is updated, no matter how",
        build_update(DB, annotate(DB)),
        (build_node(labels=ZONE), DB, HATING),
        {
            "1.30": ([("AssignedPodUpdate", QUEUE)], False),
            "1.31": ([("AssignedPodUpdate", SKIP)], False),
            "1.32": ([("AssignedPodUpdate", NOT)], False),
        },
    ),
    (
        "a pod that gives up the labels",
        build_update(DB, build_pod("db", {"app": "web"}, nodeName="n1")),
        (build_node(labels=ZONE), DB, HATING),
        {"1.30": ([("AssignedPodUpdate", QUEUE)], False), "1.31": ([("AssignedPodUpdate", QUEUE)], True)},
    ),
    (
        "the claim of another pod",
        build_addition(build_claim("other")),
        (build_node(), WITH_CLAIM),
        {"1.30": ([("PvcAdd", QUEUE)], True), "1.31": ([("PvcAdd", SKIP)], False)},
    ),
    (
        "its own claim",
        build_addition(build_claim("c")),
        (build_node(), WITH_CLAIM),
        {"1.30": ([("PvcAdd", QUEUE)], True), "1.31": ([("PvcAdd", QUEUE)], True)},
    ),
    (
        "a class that binds at once",
        build_addition(build_object("StorageClass", provisioner="x", volumeBindingMode="Immediate")),
        (build_node(), WITH_CLAIM),
        {"1.30": ([], False), "1.31": ([], False), "1.32": ([("storage.k8s.io/StorageClassAdd", NOT)], False)},
    ),
    (
        "a driver",  # VolumeBinding has no hint for drivers before 1.32
        build_update(build_object("CSIDriver", spec={}), build_object("CSIDriver", spec={"storageCapacity": True})),
        (build_node(), {**build_claim("c"), "spec": {"volumeName": "gone"}}, WITH_CLAIM),
        {
            "1.30": ([("CSIDriverUpdate", QUEUE)], True),
            "1.31": ([("CSIDriverUpdate", QUEUE)], True),
        },
    ),
]
"""Name, event, objects, and version -> the events and hints, and whether the pod moved."""


@pytest.mark.parametrize(
    ("event", "objects", "version", "hints", "moved"),
    [(*case[1:3], version, *wanted) for case in DIFFER for version, wanted in case[3].items()],
    ids=[f"{case[0]}, {version}" for case in DIFFER for version in case[3]],
)
def test_differences_between_1_30_and_1_31(
    event: Json, objects: tuple[Json, ...], version: str, hints: list[Any], moved: bool
) -> None:
    found = replay_event_with_hints(event, *objects, version=version)
    assert (list_hints(found), found["moved"], found["undecided"]) == (hints, moved, False)


def build_resize(name: str, before: str, after: str, **spec: Any) -> Json:
    return build_update(build_pod(name, cpu=before, **spec), build_pod(name, cpu=after, **spec))


@pytest.mark.parametrize(
    ("event", "moved"),
    [
        (build_resize("r", "1", "500m", nodeName="n1"), {"1.30": False, "1.31": True, "1.32": True}),
        (build_resize("p", "2", "1500m"), {"1.30": True, "1.31": True, "1.32": True}),
        (
            build_update(
                build_pod(cpu="2"), build_pod(containers=[{"name": "c"}])
            ),  # in 1.31 what it no longer asks for does not count
            {"1.30": True, "1.31": False, "1.32": True},
        ),
    ],
    ids=["a pod on a node", "the pod itself", "it asks for nothing any more"],
)
def test_resize_events(event: Json, moved: dict[str, bool]) -> None:
    gates = {"InPlacePodVerticalScaling": True}
    objects = build_node(), build_pod("r", cpu="1", nodeName="n1"), LARGE
    assert {v: replay_event_with_hints(event, *objects, version=v, gates=gates)["moved"] for v in moved} == moved


@pytest.mark.parametrize("hinted", [True, False])
def test_without_hints_resizes_of_1_31_are_updates_of_any_kind(hinted: bool) -> None:
    """AssignedPodUpdated moves all pods by AssignedPodUpdate, an event of plugins that register for changed labels."""
    before = build_pod("db", {"app": "db"}, cpu="200m", nodeName="n1")
    event = build_update(before, build_pod("db", {"app": "db"}, cpu="100m", nodeName="n1"))
    gates = {"InPlacePodVerticalScaling": True, "SchedulerQueueingHints": hinted}
    found = replay_event_with_hints(event, build_node(labels=ZONE), before, HATING, version="1.31", gates=gates)
    assert (list_hints(found), found["moved"]) == ([("AssignedPodUpdate", SKIP if hinted else QUEUE)], not hinted)


@pytest.mark.parametrize(("version", "rejectors"), [("1.30", []), ("1.31", ["NodeAffinity"])])
def test_rejection_of_all_nodes_has_no_rejector_before_1_31(version: str, rejectors: list[str]) -> None:
    """Before 1.31 no plugin is recorded as the rejector, so the pod is retried after its backoff."""
    field = {"key": "metadata.name", "operator": "In", "values": ["gone"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    waiting = build_pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    found = replay_event_with_hints(build_addition(build_node("n2")), build_node(), waiting, version=version)
    before = "unschedulable" if rejectors else "backoff"
    assert (found["unschedulablePlugins"], found["before"]) == (rejectors, before)


def list_events(version: str, plugin: str) -> list[tuple[str, bool]]:
    """Return the events of a plugin, each with whether it has a hint."""
    cluster = kschedctl.Cluster.from_objects([], kube_version=version, feature_gates=ON)
    found = Scheduler(cluster).get_registrations("default-scheduler").by_plugin
    return sorted((each.kind, each.hint is not None) for each in found[plugin])


CLAIMED = "PersistentVolumeClaim"


@pytest.mark.parametrize(
    ("plugin", "in_1_31"),
    [
        ("InterPodAffinity", [("Node", True), ("Pod", True)]),
        ("NodeVolumeLimits", [("CSINode", False), (CLAIMED, False), ("Pod", True)]),
        ("TaintToleration", [("Node", True), ("Pod", True)]),
        ("VolumeRestrictions", [("Node", False), ("Node", False), (CLAIMED, True), ("Pod", True)]),
        ("VolumeZone", [("Node", False), ("PersistentVolume", True), (CLAIMED, True), ("StorageClass", True)]),
        (
            "VolumeBinding",
            [
                ("CSIDriver", False),
                ("CSINode", True),
                ("CSIStorageCapacity", True),
                ("Node", False),
                ("PersistentVolume", False),
                (CLAIMED, True),
                ("StorageClass", True),
            ],
        ),
    ],
)
def test_plugins_that_had_no_hints_in_1_30(plugin: str, in_1_31: list[tuple[str, bool]]) -> None:
    """Each event has its kind, and whether there is a hint. TaintToleration registers for pods since it has one."""
    assert list_events("1.31", plugin) == in_1_31
    skipped = ("Pod", True) if plugin == "TaintToleration" else None
    assert list_events("1.30", plugin) == [(kind, False) for kind, hint in in_1_31 if (kind, hint) != skipped]


@pytest.mark.parametrize("plugin", ["NodeAffinity", "NodeUnschedulable", "NodeResourcesFit", "PodTopologySpread"])
def test_plugins_that_had_hints_in_1_30(plugin: str) -> None:
    assert list_events("1.30", plugin) == list_events("1.31", plugin)
    assert all(hint for _, hint in list_events("1.30", plugin))


@pytest.mark.parametrize("plugin", ["EBSLimits", "GCEPDLimits", "AzureDiskLimits"])
def test_limits_of_in_tree_disks(plugin: str) -> None:
    assert list_events("1.30", plugin) == [("Node", False), ("Node", False), (CLAIMED, False), ("Pod", False)]


@pytest.mark.parametrize(("version", "queue"), [("1.30", "unschedulable"), ("1.31", "backoff")])
def test_hints_in_a_run_of_the_queue(version: str, queue: str) -> None:
    """A pod comes to the emptier zone. The waiting pod has no room there, but may then go to the other zone."""
    nodes = build_node("n1", ZONE, cpu="2"), build_node("n2", {"zone": "b"}, cpu="500m")
    there = build_pod("there", {"app": "p"}, nodeName="n1")
    urgent = {"priority": 10, "preemptionPolicy": "Never"}
    waiting = build_pod("p", {"app": "p"}, cpu="1", **urgent, topologySpreadConstraints=[build_spread("p")])
    comes = build_pod("r", {"app": "p"}, nodeSelector={"zone": "b"})
    cluster = kschedctl.Cluster.from_objects([*nodes, there, waiting, comes], feature_gates=ON, kube_version=version)
    found = kschedctl.run_queue(cluster, closed_loop=True).to_dict()
    rejectors = found["cycles"][0]["failed"]["d/p"]["rejectors"]
    assert sorted(rejectors) == ["NodeResourcesFit", "PodTopologySpread"]
    assert found["cycles"][1]["bound"] == {"d/r": "n2"}
    assert found["queueAfter"] == {"d/p": queue}


@pytest.mark.parametrize(
    ("version", "rejectors", "heard"),
    [
        ("1.34", {"NodeResourcesFit", "DynamicResources"}, False),  # DynamicResources did not ask for pods that go
        ("1.33", {"NodeResourcesFit", "DynamicResources"}, True),
        ("1.33", {"SchedulingGates", "DynamicResources"}, False),
    ],
)
def test_events_for_gated_pods(version: str, rejectors: set[str], heard: bool) -> None:
    """Upstream: movePodsToActiveOrBackoffQueue.

    Before 1.34 gated pods get all events, unless scheduling gates ever rejected the pod.
    """
    gates = {"DynamicResourceAllocation": True}
    objects = [build_pod(), build_pod("gone", nodeName="n1")]
    scheduler = Scheduler(kschedctl.Cluster.from_objects(objects, kube_version=version, feature_gates=gates))
    info, gone = scheduler.view.pods.infos[0], scheduler.view.pods.objects[1]
    registrations = scheduler.get_registrations("default-scheduler")
    occurrence = Occurrence(POD_DELETED, ChangedObject(POD, gone, None))
    assert (
        does_event_concern_pod(registrations, Rejectors(frozenset(rejectors)), info, occurrence, "DynamicResources")
        is heard
    )
