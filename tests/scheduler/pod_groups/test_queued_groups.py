"""Check pod groups in the scheduling queue: no part of a gang is bound alone, and bound pods fit."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest
from group_clusters import GATES, build_cluster, build_gang, build_node, build_pod
from hypothesis import given
from hypothesis import strategies as st

from kschedctl.replay.run_queue import run_queue

groups = st.lists(
    st.tuples(st.integers(1, 4), st.lists(st.tuples(st.integers(1, 3), st.sampled_from((0, 10))), max_size=5)),
    min_size=1,
    max_size=3,
)


@given(groups, st.booleans(), st.booleans())
def test_all_or_nothing(wanted: list, closed: bool, workload_aware: bool) -> None:
    nodes = [build_node(f"n{i}", 4) for i in range(3)]
    running = [build_pod(f"b{i}", cpu=3, priority=-5, bound=f"n{i}") for i in range(2)]
    gangs = (
        [
            build_gang(f"g{i}", count, priority=10),
            *(build_pod(f"g{i}-{j}", f"g{i}", *each) for j, each in enumerate(pods)),
        ]
        for i, (count, pods) in enumerate(wanted)
    )
    gates = {**GATES, "WorkloadAwarePreemption": workload_aware}
    found = run_queue(build_cluster([*nodes, *running, *chain(*gangs)], gates), closed_loop=closed).to_dict()
    bound: Counter[str] = Counter()
    for cycle in found["cycles"]:
        bound.update(name[:4] for name in cycle.get("bound", ()))
        count = wanted[int(cycle["group"][-1])][0]
        assert not cycle.get("bound") or bound[cycle["group"]] >= count
        assert bool(cycle.get("bound")) == (cycle["status"]["code"] == "Success")
    for i, (count, pods) in enumerate(wanted):
        gated = [name for name in found["gated"] if name.startswith(f"a/g{i}")]
        assert len(gated) == (len(pods) if len(pods) < count else 0)


def test_completing_pod_is_tried_first() -> None:
    """The pod that completes the gang is tried first, followed by the pods that waited for it."""
    objects = [build_node("n", 8), build_gang("g", 3), *(build_pod(f"g-{i}", "g") for i in range(4))]
    (cycle,) = run_queue(build_cluster(objects)).to_dict()["cycles"]
    assert (cycle["popped"], cycle["order"]) == ("a/g-0", ["a/g-2", "a/g-0", "a/g-1", "a/g-3"])
    assert [each["permit"] for each in cycle["pods"]] == ["Wait", "Wait", "Success", "Success"]
    assert cycle["condition"] == {"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled", "message": ""}


def test_unchanged_condition_is_not_written_again() -> None:
    condition = {"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled"}
    group = {**build_gang("g", 1), "status": {"conditions": [condition]}}
    for size in (8, 0):
        (cycle,) = run_queue(build_cluster([build_node("n", size), group, build_pod("g-0", "g")])).to_dict()["cycles"]
        assert ("condition" in cycle) is False, size


def test_failed_member_is_activated_by_a_waiting_member() -> None:
    """g-0, the largest pod, is tried first and fits nowhere. Then g-1 waits at Permit, which activates g-0."""
    objects = [
        build_node("n", 2),
        build_gang("g", 2),
        build_pod("g-0", "g", 9, 5),
        build_pod("g-1", "g"),
        build_pod("g-2", "g"),
    ]
    first, second = run_queue(build_cluster(objects)).to_dict()["cycles"]
    assert (sorted(first["bound"]), sorted(first["failed"])) == (["a/g-1", "a/g-2"], ["a/g-0"])
    assert (second["popped"], second["order"], sorted(second["failed"])) == ("a/g-0", ["a/g-0"], ["a/g-0"])


AGAINST_B = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "b"}}}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [AGAINST_B]}}
HOST = {"kubernetes.io/hostname": "n"}


@pytest.mark.parametrize(
    ("grouped", "guarded", "bound"),
    [(True, False, ["a/g-0", "a/g-1"]), (True, True, ["a/g-0"]), (False, False, ["a/g-0"])],
)
def test_anti_affinity_of_assumed_members_is_not_seen(grouped: bool, guarded: bool, bound: list[str]) -> None:
    """Upstream sees it only if a pod on the node had such a term before. See AssumePod in backend/cache/snapshot.go."""
    name = "g" if grouped else ""
    wanted = build_pod("g-1", name)
    wanted["metadata"]["labels"] = {"app": "b"}
    elsewhere = {**AGAINST_B, "labelSelector": {"matchLabels": {"app": "nobody"}}}
    other = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [elsewhere]}}
    guard = [build_pod("b", bound="n", affinity=other)] if guarded else []
    group = {**build_gang("g", 1), "spec": {"schedulingPolicy": {"basic": {}}}}
    objects = [build_node("n", 8, **HOST), group, *guard, build_pod("g-0", name, affinity=APART), wanted]
    cycles = run_queue(build_cluster(objects)).to_dict()["cycles"]
    assert sorted(chain.from_iterable(cycle.get("bound", ()) for cycle in cycles)) == bound


def test_group_with_pods_of_several_schedulers_is_rejected() -> None:
    profiles = [{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}]
    version = "kubescheduler.config.k8s.io/v1"
    config = {"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": profiles}
    objects = [build_node("n"), build_gang("g", 2), build_pod("g-0", "g"), build_pod("g-1", "g", schedulerName="other")]
    found = type(build_cluster([])).from_objects(objects, config=config, feature_gates=GATES)
    (cycle,) = run_queue(found).to_dict()["cycles"]
    assert {each["code"] for each in cycle["failed"].values()} == {"Error"}
    assert "should have the same .spec.schedulerName set" in cycle["failed"]["a/g-0"]["message"]


def test_scheduler_name_of_a_terminating_member_counts() -> None:
    """Upstream calls frameworkForPodGroup before skipPodGroupPodSchedule, so all pods are rejected and return to the
    queue."""
    profiles = [{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}]
    version = "kubescheduler.config.k8s.io/v1"
    config = {"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": profiles}
    for name, bound in (("other", []), ("default-scheduler", ["a/g-0", "a/g-1"])):
        leaving = build_pod("g-2", "g", schedulerName=name)
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        objects = [build_node("n"), build_gang("g", 2), build_pod("g-0", "g"), build_pod("g-1", "g"), leaving]
        found = run_queue(type(build_cluster([])).from_objects(objects, config=config, feature_gates=GATES)).to_dict()
        (cycle,) = found["cycles"]
        assert sorted(cycle.get("bound", ())) == bound
        assert sorted(found["queueAfter"]) == ([] if bound else ["a/g-0", "a/g-1", "a/g-2"])


def test_victims_of_the_own_group_count_for_its_minimum() -> None:
    """selectVictimsOnDomain removes victims only from NodeInfos, and Permit counts by the state of the group.

    The group needs three pods: g-0, which runs, and two pods that need its room, as g-0 has a lower priority than its
    group.
    """
    gates = {**GATES, "WorkloadAwarePreemption": True}
    running, waiting = build_pod("g-0", "g", 3, -1, bound="n"), [build_pod(f"g-{i}", "g", 2, 10) for i in (1, 2)]
    for count, victims in ((3, ["a/g-0"]), (4, [])):
        gated = [build_pod("g-3", "g", 4, 10)] if count == 4 else []  # which fits beside nobody
        objects = [build_node("n"), build_gang("g", count, priority=10), running, *waiting, *gated]
        (cycle,) = run_queue(build_cluster(objects, gates)).to_dict()["cycles"]
        assert (cycle.get("victims", []), cycle.get("waitingOnPreemption", False)) == (victims, bool(victims))


CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "c", "namespace": "a", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
    "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": "v", "resources": {"requests": {"storage": "1Gi"}}},
    "status": {"phase": "Bound"},
}
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "v"},
    "spec": {"capacity": {"storage": "1Gi"}, "csi": {"driver": "d", "volumeHandle": "h"}},
}


@pytest.mark.parametrize(("grouped", "bound"), [(True, ["a/g-0", "a/g-1"]), (False, ["a/g-0"])])
def test_claims_of_assumed_members_are_not_seen(grouped: bool, bound: list[str]) -> None:
    """UpdateSnapshot builds the snapshot's usedPVCSet before the cycle (pkg/scheduler/backend/cache/cache.go)."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    members = [build_pod(f"g-{i}", "g" if grouped else "", volumes=volumes) for i in range(2)]
    group = {**build_gang("g", 1), "spec": {"schedulingPolicy": {"basic": {}}}}
    cycles = run_queue(build_cluster([build_node("n"), CLAIM, VOLUME, group, *members])).to_dict()["cycles"]
    assert sorted(chain.from_iterable(cycle.get("bound", ()) for cycle in cycles)) == bound


def test_group_without_pods_is_not_tried() -> None:
    found = run_queue(build_cluster([build_node("n"), build_gang("empty", 2), build_pod("alone")])).to_dict()
    assert [cycle["bound"] for cycle in found["cycles"]] == [{"a/alone": "n"}]


@pytest.mark.parametrize("closed", [True, False])
def test_parent_fields_of_unknown_versions_are_ignored(closed: bool) -> None:
    """In scheduling/v1alpha2 of v1.36, groups have no parents.

    The API server drops such a field, so it has no effect.
    """
    circle = [build_gang("g0", 1, parentPodGroupName="g1"), build_gang("g1", 1, parentPodGroupName="g0")]
    objects = [build_node("n"), *circle, build_pod("g0-0", "g0"), build_pod("g1-0", "g1")]
    plain = [
        build_node("n"),
        build_gang("g0", 1),
        build_gang("g1", 1),
        build_pod("g0-0", "g0"),
        build_pod("g1-0", "g1"),
    ]
    found = run_queue(build_cluster(objects), closed_loop=closed).to_dict()
    assert [cycle["bound"] for cycle in found["cycles"]] == [{"a/g0-0": "n"}, {"a/g1-0": "n"}]
    assert found == run_queue(build_cluster(plain), closed_loop=closed).to_dict()


def test_pod_whose_group_has_no_name_is_gated() -> None:
    """GangScheduling's PreEnqueue does not find such a group."""
    nameless = build_pod("p", schedulingGroup={})
    found = run_queue(build_cluster([build_node("n"), build_gang("g", 1), nameless])).to_dict()
    reason = 'waiting for pods\'s pod group "" to appear in scheduling queue'
    assert (found["cycles"], found["gated"]["a/p"]["reasons"]) == ([], [reason])
