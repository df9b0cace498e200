"""Check pod groups in the scheduling queue: no part of a gang is bound alone, and bound pods fit."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest
from group_clusters import GATES, cluster, gang, node, pod
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
    nodes = [node(f"n{i}", 4) for i in range(3)]
    running = [pod(f"b{i}", cpu=3, priority=-5, bound=f"n{i}") for i in range(2)]
    gangs = (
        [gang(f"g{i}", count, priority=10), *(pod(f"g{i}-{j}", f"g{i}", *each) for j, each in enumerate(pods))]
        for i, (count, pods) in enumerate(wanted)
    )
    gates = {**GATES, "WorkloadAwarePreemption": workload_aware}
    found = run_queue(cluster([*nodes, *running, *chain(*gangs)], gates), closed_loop=closed).to_dict()
    bound: Counter[str] = Counter()
    for cycle in found["cycles"]:
        bound.update(name[:4] for name in cycle.get("bound", ()))
        count = wanted[int(cycle["group"][-1])][0]
        assert not cycle.get("bound") or bound[cycle["group"]] >= count
        assert bool(cycle.get("bound")) == (cycle["status"]["code"] == "Success")
    for i, (count, pods) in enumerate(wanted):
        gated = [name for name in found["gated"] if name.startswith(f"a/g{i}")]
        assert len(gated) == (len(pods) if len(pods) < count else 0)


def test_members_wait_for_the_last_of_them() -> None:
    """The one that completes the gang is tried first, then those that had waited for it."""
    objects = [node("n", 8), gang("g", 3), *(pod(f"g-{i}", "g") for i in range(4))]
    (cycle,) = run_queue(cluster(objects)).to_dict()["cycles"]
    assert (cycle["popped"], cycle["order"]) == ("a/g-0", ["a/g-2", "a/g-0", "a/g-1", "a/g-3"])
    assert [each["permit"] for each in cycle["pods"]] == ["Wait", "Wait", "Success", "Success"]
    assert cycle["condition"] == {"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled", "message": ""}


def test_a_condition_that_says_so_already_is_not_written_again() -> None:
    condition = {"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled"}
    group = {**gang("g", 1), "status": {"conditions": [condition]}}
    for size in (8, 0):
        (cycle,) = run_queue(cluster([node("n", size), group, pod("g-0", "g")])).to_dict()["cycles"]
        assert ("condition" in cycle) is False, size


def test_a_member_that_failed_is_tried_again_when_another_waits_for_it() -> None:
    """g-0, the largest, comes first and fits nowhere; g-1 then waits at Permit, which activates g-0."""
    objects = [node("n", 2), gang("g", 2), pod("g-0", "g", 9, 5), pod("g-1", "g"), pod("g-2", "g")]
    first, second = run_queue(cluster(objects)).to_dict()["cycles"]
    assert (sorted(first["bound"]), sorted(first["failed"])) == (["a/g-1", "a/g-2"], ["a/g-0"])
    assert (second["popped"], second["order"], sorted(second["failed"])) == ("a/g-0", ["a/g-0"], ["a/g-0"])


AGAINST_B = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "b"}}}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [AGAINST_B]}}
HOST = {"kubernetes.io/hostname": "n"}


@pytest.mark.parametrize(
    ("grouped", "guarded", "bound"),
    [(True, False, ["a/g-0", "a/g-1"]), (True, True, ["a/g-0"]), (False, False, ["a/g-0"])],
)
def test_of_members_just_assumed_upstream_does_not_see_the_anti_affinity(
    grouped: bool, guarded: bool, bound: list[str]
) -> None:
    """Unless some pod on the node had such a term before; AssumePod in pkg/scheduler/backend/cache/snapshot.go."""
    name = "g" if grouped else ""
    wanted = pod("g-1", name)
    wanted["metadata"]["labels"] = {"app": "b"}
    elsewhere = {**AGAINST_B, "labelSelector": {"matchLabels": {"app": "nobody"}}}
    other = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [elsewhere]}}
    guard = [pod("b", bound="n", affinity=other)] if guarded else []
    group = {**gang("g", 1), "spec": {"schedulingPolicy": {"basic": {}}}}
    objects = [node("n", 8, **HOST), group, *guard, pod("g-0", name, affinity=APART), wanted]
    cycles = run_queue(cluster(objects)).to_dict()["cycles"]
    assert sorted(chain.from_iterable(cycle.get("bound", ()) for cycle in cycles)) == bound


def test_groups_of_several_schedulers_are_refused() -> None:
    profiles = [{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}]
    version = "kubescheduler.config.k8s.io/v1"
    config = {"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": profiles}
    objects = [node("n"), gang("g", 2), pod("g-0", "g"), pod("g-1", "g", schedulerName="other")]
    found = type(cluster([])).from_objects(objects, config=config, feature_gates=GATES)
    (cycle,) = run_queue(found).to_dict()["cycles"]
    assert {each["code"] for each in cycle["failed"].values()} == {"Error"}
    assert "should have the same .spec.schedulerName set" in cycle["failed"]["a/g-0"]["message"]


def test_a_member_that_is_being_deleted_counts_among_the_schedulers() -> None:
    """Upstream's frameworkForPodGroup comes before skipPodGroupPodSchedule: all are refused, and all come back."""
    profiles = [{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}]
    version = "kubescheduler.config.k8s.io/v1"
    config = {"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": profiles}
    for name, bound in (("other", []), ("default-scheduler", ["a/g-0", "a/g-1"])):
        leaving = pod("g-2", "g", schedulerName=name)
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        objects = [node("n"), gang("g", 2), pod("g-0", "g"), pod("g-1", "g"), leaving]
        found = run_queue(type(cluster([])).from_objects(objects, config=config, feature_gates=GATES)).to_dict()
        (cycle,) = found["cycles"]
        assert sorted(cycle.get("bound", ())) == bound
        assert sorted(found["queueAfter"]) == ([] if bound else ["a/g-0", "a/g-1", "a/g-2"])


def test_members_whose_room_a_group_takes_count_for_its_quorum() -> None:
    """selectVictimsOnDomain takes victims out of NodeInfos alone, and Permit counts by the state of the group.

    Three are wanted: g-0, which runs, and the two that wait for its room, since g-0 comes after its own group.
    """
    gates = {**GATES, "WorkloadAwarePreemption": True}
    running, waiting = pod("g-0", "g", 3, -1, bound="n"), [pod(f"g-{i}", "g", 2, 10) for i in (1, 2)]
    for count, victims in ((3, ["a/g-0"]), (4, [])):
        gated = [pod("g-3", "g", 4, 10)] if count == 4 else []  # which fits beside nobody
        objects = [node("n"), gang("g", count, priority=10), running, *waiting, *gated]
        (cycle,) = run_queue(cluster(objects, gates)).to_dict()["cycles"]
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
def test_of_members_just_assumed_upstream_does_not_see_the_claims(grouped: bool, bound: list[str]) -> None:
    """usedPVCSet of the snapshot is made before the cycle: UpdateSnapshot in pkg/scheduler/backend/cache/cache.go."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    members = [pod(f"g-{i}", "g" if grouped else "", volumes=volumes) for i in range(2)]
    group = {**gang("g", 1), "spec": {"schedulingPolicy": {"basic": {}}}}
    cycles = run_queue(cluster([node("n"), CLAIM, VOLUME, group, *members])).to_dict()["cycles"]
    assert sorted(chain.from_iterable(cycle.get("bound", ()) for cycle in cycles)) == bound


def test_a_group_without_pods_is_nothing_to_try() -> None:
    found = run_queue(cluster([node("n"), gang("empty", 2), pod("alone")])).to_dict()
    assert [cycle["bound"] for cycle in found["cycles"]] == [{"a/alone": "n"}]


@pytest.mark.parametrize("closed", [True, False])
def test_groups_cannot_be_in_a_circle(closed: bool) -> None:
    """scheduling/v1alpha2 of v1.36 has no field by which a group is part of another, and only pods name groups: what a
    later version may say of parents is no field to the API server, and decides nothing.
    """
    circle = [gang("g0", 1, parentPodGroupName="g1"), gang("g1", 1, parentPodGroupName="g0")]
    objects = [node("n"), *circle, pod("g0-0", "g0"), pod("g1-0", "g1")]
    plain = [node("n"), gang("g0", 1), gang("g1", 1), pod("g0-0", "g0"), pod("g1-0", "g1")]
    found = run_queue(cluster(objects), closed_loop=closed).to_dict()
    assert [cycle["bound"] for cycle in found["cycles"]] == [{"a/g0-0": "n"}, {"a/g1-0": "n"}]
    assert found == run_queue(cluster(plain), closed_loop=closed).to_dict()


def test_a_pod_whose_group_has_no_name_waits_for_it() -> None:
    """As GangScheduling's PreEnqueue says: there is no such group."""
    nameless = pod("p", schedulingGroup={})
    found = run_queue(cluster([node("n"), gang("g", 1), nameless])).to_dict()
    reason = 'waiting for pods\'s pod group "" to appear in scheduling queue'
    assert (found["cycles"], found["gated"]["a/p"]["reasons"]) == ([], [reason])
