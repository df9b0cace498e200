"""Check which events would wake a pod, which wake many, and which happened between two moments."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl
from kschedctl.commands.wakes.between import find_wakes_between
from kschedctl.commands.wakes.changes import parse_changes
from kschedctl.commands.wakes.changes_that_wake import WakeQuery, find_wake_ups, iter_wake_triggers
from kschedctl.commands.wakes.many import replay_changes_for_pods
from kschedctl.commands.wakes.report import RejectorReport, WakeUp, WakeUps
from kschedctl.scheduler.framework.events import ActionType, WakingPlugin
from kschedctl.scheduler.scheduler import Scheduler

Json = dict[str, Any]
TERM = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def build_node(name: str, cpu: str = "1", **labels: str) -> Json:
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": "a", **labels}}
    return {"kind": "Node", "metadata": metadata, "status": {"allocatable": {"cpu": cpu, "pods": "10"}}}


def build_pod(name: str, cpu: str = "2", namespace: str = "d", labels: Json | None = None, **spec: Any) -> Json:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    metadata = {"name": name, "namespace": namespace, "uid": name, "labels": labels or {}}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def build_scheduler(*objects: Json, version: str = "1.36", gates: dict[str, bool] | None = None) -> Scheduler:
    return Scheduler(kschedctl.Cluster.from_objects(objects, kube_version=version, feature_gates=gates))


def get_hints_by_rejector(found: Scheduler, key: str) -> dict[str, list[str]]:
    """Return the hints of each rejector of a pod."""
    namespace, name = key.split("/")
    report = find_wake_ups(found, found.view.build_stored_pod(found.cluster.pod(namespace, name)))
    return {each.plugin: [wake_up.words for wake_up in each.wake_ups] for each in report.rejectors}


def test_descriptions_have_the_figures_that_hints_compare() -> None:
    waiting = build_pod("p", cpu="1500m", nodeSelector={"disktype": "ssd"})
    found = get_hints_by_rejector(build_scheduler(build_node("n1", disktype="ssd"), build_node("n2"), waiting), "d/p")
    assert found["NodeAffinity"][0] == "a node with label disktype=ssd is added"
    assert found["NodeResourcesFit"][0] == "a pod leaves a node (to fit there, this pod needs 1.5 CPUs)"
    assert "a node that offers 1.5 CPUs is added" in found["NodeResourcesFit"]


def test_gates_and_claims_are_named() -> None:
    found = build_scheduler(
        build_node("n1"),
        build_pod("gated", schedulingGates=[{"name": "wait"}]),
        build_pod("p", cpu="1", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
    )
    assert get_hints_by_rejector(found, "d/gated") == {
        "SchedulingGates": ["the last of its scheduling gates is removed: wait"],
    }
    assert get_hints_by_rejector(found, "d/p")["VolumeRestrictions"][1] == "claim d/data is created"


def test_affinity_terms_name_pods_and_domains() -> None:
    found = get_hints_by_rejector(
        build_scheduler(build_node("n1"), build_pod("p", cpu="1", affinity={"podAffinity": {REQUIRED: [TERM]}})), "d/p"
    )
    assert found["InterPodAffinity"][0] == "a pod with app=db in namespace d gets a node"
    assert "a node with label zone is added" in found["InterPodAffinity"]


TAKES = ", and would then take the pod"
CHANGES = "a node with label zone is added, or its labels or taints change" + TAKES
OF_NODES = "any add, updatenodelabel or updatenodetaint of a Node that would then take it"
OF_PODS = "any add or update of a Pod that its pod affinity or spreading may consider"


@pytest.mark.parametrize(
    ("version", "of_affinity"),
    [
        ("1.30", ["any delete of a Pod", OF_PODS, OF_NODES]),
        (
            "1.31",
            [
                "a pod with app=db in namespace d gets a node",
                "a pod on a node becomes one with app=db in namespace d",
                CHANGES,
            ],
        ),
    ],
)
def test_descriptions_of_hints_before_1_32(version: str, of_affinity: list[str]) -> None:
    """Nodes are not compared with their former state, but must fit the pod. In 1.30, some plugins have no hints."""
    waiting = (
        build_pod("p", nodeSelector={"disktype": "ssd"}),
        build_pod("q", cpu="1", affinity={"podAffinity": {REQUIRED: [TERM]}}),
    )
    gates = {"SchedulerQueueingHints": True}
    found = build_scheduler(build_node("n1", disktype="ssd"), build_node("n2"), *waiting, version=version, gates=gates)
    assert get_hints_by_rejector(found, "d/p") == {
        "NodeAffinity": [f"a node with label disktype=ssd is added or changes{TAKES}"],
        "NodeResourcesFit": [
            "a pod leaves a node (to fit there, this pod needs 2 CPUs)",
            f"a node that offers 2 CPUs is added or changes{TAKES}",
        ],
    }
    assert get_hints_by_rejector(found, "d/q") == {"InterPodAffinity": of_affinity}


EVERYTHING = {
    "schedulingGates": [{"name": "g"}],
    "affinity": {"podAffinity": {REQUIRED: [TERM]}, "podAntiAffinity": {REQUIRED: [TERM]}},
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": TERM["labelSelector"],
            "nodeTaintsPolicy": "Honor",
        }
    ],
    "volumes": [{"name": "v", "csi": {"driver": "d.example.com"}}],
    "containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}],
}


def test_every_registered_event_is_described() -> None:
    found = build_scheduler(build_node("n1"), build_pod("p", **EVERYTHING))
    framework, registrations = found.find_framework("default-scheduler"), found.get_registrations("default-scheduler")
    assert framework is not None
    info = found.view.pods.infos[0]
    for plugin, asked in registrations.by_plugin.items():
        told = list(
            iter_wake_triggers(WakeQuery(info, framework.plugins[plugin], found.view, found.gates), asked, hinted=True)
        )
        for each in asked:
            covered = ActionType(0)
            for way in told:
                covered |= way.action if way.kind == each.kind else ActionType(0)
            assert each.action & ~covered == 0, (plugin, each)
    silent = {name for name in registrations.by_plugin if not isinstance(framework.plugins[name], WakingPlugin)}
    assert silent == {"DefaultPreemption"}


def test_answer_about_many_pods_equals_the_single_answers() -> None:
    pods = [
        build_pod(f"p{number}", cpu=str(number % 3 + 1), nodeSelector={"x": "y"} if number % 2 else {})
        for number in range(9)
    ]
    found = build_scheduler(build_node("n1", "500m"), *pods)
    events = [
        {"action": "Add", "new": build_node("new", "2", x="y")},
        {"action": "Delete", "old": build_pod("r", nodeName="n1")},
    ]
    changes = parse_changes([*events, build_pod("p3", cpu="1")], found.view)
    report = replay_changes_for_pods(found, list(found.cluster.unbound_pods()), changes, "")
    assert len(report.answers) == 27
    last = {"action": "Update", "old": pods[3], "new": build_pod("p3", cpu="1")}
    for answer in report.answers:
        alone = [kschedctl.wakes(found.cluster, answer.pod, event) for event in (*events, last)]
        same = next(each for each in alone if each.change == answer.change)
        assert (answer.moved, answer.events) == (same.moved, same.events), (answer.pod, answer.change)
    assert {answer.moved for answer in report.answers} == {True, False}


def test_watch_events_and_objects_are_accepted_as_events() -> None:
    found = build_scheduler(build_node("n1"), build_pod("p"))
    told = [
        {"type": "DELETED", "object": build_node("n1")},
        build_node("n1", "4"),
        {"kind": "List", "items": [build_node("n2")]},
    ]
    changes = parse_changes(told, found.view)
    assert [(change.old is None, change.new is None) for change in changes] == [
        (False, True),
        (False, False),
        (True, False),
    ]


@pytest.mark.parametrize(
    "documents", [[], [{"kind": "Secret", "metadata": {"name": "c"}}], [{"type": "BOOKMARK", "object": {}}]]
)
def test_invalid_events_are_errors(documents: list[Json]) -> None:
    with pytest.raises(kschedctl.KschedctlError):
        parse_changes(documents, build_scheduler(build_node("n1")).view)


def test_missed_pod_is_found() -> None:
    """A namespace's labels changed, so that the pod's affinity is met, but the scheduler does not watch namespaces."""
    term = {**TERM, "namespaceSelector": {"matchLabels": {"team": "x"}}}
    waits = build_pod("waits", "100m", affinity={"podAffinity": {REQUIRED: [term]}})
    large = build_pod("large", "3")
    db = build_pod("db", "100m", "other", {"app": "db"}, nodeName="n1")
    before = build_scheduler(build_node("n1"), db, waits, large, {"kind": "Namespace", "metadata": {"name": "other"}})
    labelled = {"kind": "Namespace", "metadata": {"name": "other", "labels": {"team": "x"}}}
    after = build_scheduler(build_node("n1"), db, waits, large, labelled)
    report = find_wakes_between(before, after, None, ("a", "b"))
    assert (report.changes, report.unheard) == (0, 1)
    assert [(each.pod, each.missed, each.fits) for each in report.pods] == [
        ("d/waits", True, ("n1",)),
        ("d/large", False, ()),
    ]


def test_gated_pod_is_not_said_to_fit_nowhere() -> None:
    found = build_scheduler(build_node("n1"), build_pod("p", cpu="1", schedulingGates=[{"name": "wait"}]))
    (told,) = find_wakes_between(found, found, None, ("a", "b")).pods
    assert told.headline == "nothing woke it, rightly: it is held back by SchedulingGates"


def test_changes_that_woke_a_pod_between_two_snapshots() -> None:
    old, other = build_node("n1"), build_node("n2", "500m")
    before = build_scheduler(old, other, build_pod("p"), build_pod("bound"))
    after = build_scheduler(build_node("n1", "4"), other, build_pod("p"), build_pod("bound", nodeName="n1"))
    (found,) = find_wakes_between(before, after, None, ("a", "b")).pods
    assert [(each.change, each.by) for each in found.woken_by] == [("Node n1 changed", ("NodeResourcesFit",))]
    assert (found.pod, found.fits, found.missed, found.not_woken_by) == ("d/p", ("n1",), False, 1)


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [({}, {"gpu": ""}, True), ({"gpu": None}, {"gpu": ""}, False), ({"gpu": "a"}, {"gpu": ""}, False)],
    ids=["added", "null is an empty text", "there before"],
)
def test_label_with_an_empty_value_is_a_label(old: Json, new: Json, moved: bool) -> None:
    terms = [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
    waiting = build_pod("p", cpu="1", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})
    before, after = ({**build_node("n1"), "metadata": {"name": "n1", "labels": labels}} for labels in (old, new))
    cluster = kschedctl.Cluster.from_objects([build_node("n2"), waiting])
    found = kschedctl.wakes(cluster, "d/p", {"action": "Update", "old": before, "new": after})
    assert found.moved is moved
    assert bool(found.events) is (old != {"gpu": None})


def test_fate_of_pods_that_no_longer_wait() -> None:
    """They are listed on request. Their own binding or end did not wake them."""
    old = [build_pod("bound"), build_pod("gone"), build_pod("left"), build_pod("done"), build_pod("waits")]
    leaving = build_pod("left")
    leaving["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    before = build_scheduler(build_node("n1"), *old)
    done = {**build_pod("done"), "status": {"phase": "Failed"}}
    after = build_scheduler(build_node("n1", "4"), build_pod("bound", nodeName="n1"), leaving, done, build_pod("waits"))
    keys = {f"d/{name}" for name in ("bound", "gone", "left", "done", "waits")}
    assert [each.pod for each in find_wakes_between(before, after, keys, ("a", "b")).pods] == ["d/waits"]
    found = find_wakes_between(before, after, keys, ("a", "b"), include_ended=True)
    assert {each.pod: each.ended for each in found.pods} == {
        "d/bound": "is on n1",
        "d/gone": "is gone",
        "d/left": "is being deleted",
        "d/done": "has finished",
        "d/waits": "",
    }
    for each in found.pods:
        assert [change.change for change in each.woken_by] == ["Node n1 changed"]
        assert not each.missed


def test_kinds_unread_in_one_snapshot_are_no_changes() -> None:
    """Claims that were not read at first may have existed before."""
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "d"}}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    objects = [build_node("n1"), build_pod("p", volumes=volumes)]
    after = build_scheduler(*objects, claim)
    unread = Scheduler(kschedctl.Cluster.from_objects(objects, assume_complete=False))
    assert find_wakes_between(build_scheduler(*objects), after, None, ("a", "b")).changes == 1
    for moments in ((unread, after), (after, unread)):
        report = find_wakes_between(*moments, None, ("a", "b"))
        assert (report.changes, report.undecided) == (0, True)


@pytest.mark.parametrize(
    "event",
    [
        {"action": "Delete", "old": {"kind": "Pod", "metadata": {"name": "r", "namespace": "d"}}},
        {"type": "DELETED", "object": {"kind": "Pod", "metadata": {"name": "r", "namespace": "d"}}},
    ],
)
def test_deleted_objects_need_only_a_name(event: Json) -> None:
    found = build_scheduler(build_node("n1"), build_pod("r", "1", nodeName="n1"), build_pod("p", "1"))
    (change,) = parse_changes([event], found.view)
    assert change.old.spec.node_name == "n1"
    report = replay_changes_for_pods(found, [found.cluster.pod("d", "p")], [change], "")
    assert [each.moved for each in report.answers] == [True]


def test_error_in_an_event_file_names_its_place() -> None:
    with pytest.raises(kschedctl.KschedctlError, match=r"^events\.yaml, document 2, event: expected objects"):
        parse_changes([build_node("n2"), {}], build_scheduler(build_node("n1")).view, where="events.yaml")


def test_most_of_many_changes_are_only_counted() -> None:
    names = [f"n{number}" for number in range(150)]
    before, after = (
        build_scheduler(*(build_node(name, cpu) for name in names), build_pod("p", "4")) for cpu in ("2", "3")
    )
    (told,) = find_wakes_between(before, after, None, ("a", "b")).pods
    assert (told.waking_changes, told.not_woken_by, told.woken_by) == (0, 150, ())
    after = build_scheduler(*(build_node(name, "4") for name in names), build_pod("p", "4"))
    (told,) = find_wakes_between(before, after, None, ("a", "b")).pods
    assert (told.waking_changes, len(told.woken_by), told.missed) == (150, 100, False)
    assert told.headline.startswith("150 of 150 changes woke it; ")


CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "there", "namespace": "d", "uid": "c"},
    "spec": {"devices": {"requests": []}},
}


def test_gated_pod_waits_only_for_changes_that_lift_the_gate() -> None:
    """All events of DynamicResources rerun its PreEnqueue, which rejects the pod while a claim is missing."""
    named, generated = {"name": "a", "resourceClaimName": "gone"}, {"name": "b", "resourceClaimTemplateName": "t"}
    there = {"name": "c", "resourceClaimName": "there"}
    pods = [
        build_pod("named", resourceClaims=[named]),
        build_pod("generated", resourceClaims=[generated]),
        build_pod("both", resourceClaims=[generated, named]),
        build_pod("tried", resourceClaims=[there]),
    ]
    found = build_scheduler(build_node("n1"), CLAIM, *pods)
    told = "the pod's status records the names of its generated claims"
    assert get_hints_by_rejector(found, "d/named") == {"DynamicResources": ["claim d/gone is created"]}
    assert get_hints_by_rejector(found, "d/generated") == {"DynamicResources": [told]}
    both = ["claim d/gone is created, and the pod's other claims exist", told]
    assert get_hints_by_rejector(found, "d/both") == {"DynamicResources": both}
    assert "DynamicResources" not in get_hints_by_rejector(found, "d/tried")


def test_incomplete_gang_shows_the_number_of_missing_pods() -> None:
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "d"},
    }
    group["spec"] = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    gates = {"GenericWorkload": True, "GangScheduling": True}
    member = build_pod("p", schedulingGroup={"podGroupName": "g"})
    found = Scheduler(kschedctl.Cluster.from_objects([build_node("n1"), group, member], feature_gates=gates))
    assert get_hints_by_rejector(found, "d/p")["GangScheduling"][0] == "2 more pods of group d/g are created"


def test_any_update_of_the_pod_itself_wakes_it_without_hints() -> None:
    """See isPodUpdated in the queue of 1.31. No plugin is called, not even SchedulingGates."""
    gated, large = build_pod("gated", schedulingGates=[{"name": "wait"}]), build_pod("p")
    cluster = kschedctl.Cluster.from_objects([build_node("n1"), gated, large], kube_version="1.31")
    found = Scheduler(cluster)
    assert get_hints_by_rejector(found, "d/gated") == {
        "SchedulingGates": ["the last of its scheduling gates is removed: wait"]
    }
    assert (
        get_hints_by_rejector(found, "d/p")["NodeResourcesFit"][-1]
        == "the pod itself is updated, in more than its status"
    )
    event = {"action": "Update", "old": large, "new": build_pod("p", labels={"a": "b"})}
    assert kschedctl.wakes(cluster, "d/p", event).moved


def test_members_of_pod_groups_return_after_their_backoff() -> None:
    """They return whatever hints say, and even if they would fit alone (determineSchedulingHintForInFlightPod)."""
    metadata, spec = {"name": "g", "namespace": "d"}, {"schedulingPolicy": {"gang": {"minCount": 2}}}
    group = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    gates = {"GenericWorkload": True, "GangScheduling": True}
    small, large = (
        build_pod(name, cpu, schedulingGroup={"podGroupName": "g"}) for name, cpu in (("a", "1"), ("b", "2"))
    )
    event = {"action": "Add", "new": build_node("n2", "4")}
    for cpu, place, said in (
        ("1", "backoff", "retried after their back-off"),
        ("4", "", "fits now with its gang g"),
    ):
        cluster = kschedctl.Cluster.from_objects([build_node("n1", cpu), group, small, large], feature_gates=gates)
        for key in ("d/a", "d/b"):
            answer = kschedctl.wakes(cluster, key, event)
            assert (answer.before, answer.after, answer.moved) == (place, place, False)
        found = Scheduler(cluster)
        for name in ("a", "b"):
            report = find_wake_ups(found, found.view.build_stored_pod(cluster.pod("d", name)))
            assert said in report.headline
            assert (report.queue, report.rejectors) == (place, ())
            assert report.pod_group is not None
        many = replay_changes_for_pods(found, list(cluster.unbound_pods()), parse_changes([event], found.view), "")
        assert [each.before for each in many.answers] == ["backoff"] * 2 * bool(place)
        assert many.fitting == (() if place else ("d/a", "d/b"))


def test_summary_begins_with_the_plugin_that_rejects_the_closest_nodes() -> None:
    """A node that only lacks room has passed the earlier filters."""
    rejectors = tuple(
        RejectorReport(plugin, "", (WakeUp("Node", ("Add",), f"change for {plugin}"), WakeUp("Node", ("Add",), "both")))
        for plugin in ("NodeUnschedulable", "NodeResourcesFit")
    )
    summary = WakeUps("d/p", "rejected", "unschedulable", rejectors=rejectors).summary()
    assert summary.advice == ("change for NodeResourcesFit", "both", "change for NodeUnschedulable")
    assert summary.headline.endswith(
        "otherwise the pod is retried after five minutes (podMaxInUnschedulablePodsDuration)"
    )
