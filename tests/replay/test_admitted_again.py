"""Check quotas and LimitRanges for pods that controllers create, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
from test_counted_pods import NODE, Json, build_deployment, build_quota

import kschedctl
from kschedctl.commands.capacity import capacity
from kschedctl.commands.drain import drain_nodes
from kschedctl.commands.explain.one_pod import explain
from kschedctl.commands.simulate import simulate
from kschedctl.commands.whatif import whatif

SECOND = {**NODE, "metadata": {"name": "m"}}


def build_running_pod(name: str, node: str = "n", **resources: Json) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "controller": True, "uid": "r"}
    metadata = {"name": name, "namespace": "shop", "uid": name, "ownerReferences": [owner]}
    labels = {"app": "web", "pod-template-hash": "5d"}
    container = {"name": "c", "image": "c", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "labels": labels},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running"},
    }


def build_limits(**item: Json) -> Json:
    spec = {"limits": [{"type": "Container", **item}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "shop"}, "spec": spec}


def build_cluster(*objects: Json) -> kschedctl.Cluster:
    return kschedctl.Cluster.from_objects([NODE, SECOND, *objects])


def test_deleted_pod_leaves_its_quota_to_its_replacement() -> None:
    """The quota is used up by these two pods alone."""
    full = build_quota("q", {"pods": "2"}, {"pods": "2"})
    report = drain_nodes(build_cluster(build_running_pod("a"), build_running_pod("b"), full), ["n"])
    assert report.safe
    assert not report.not_created
    assert not report.not_replayed


def test_pods_beyond_the_quota_are_not_recreated() -> None:
    """Three pods use a quota of one. Once two of them are deleted, the third uses it up."""
    over = build_quota("q", {"pods": "3"}, {"pods": "1"})
    report = drain_nodes(
        build_cluster(build_running_pod("a"), build_running_pod("b"), build_running_pod("c", "m"), over), ["n"]
    )
    (lacking,) = report.not_created
    assert (lacking.wanted, lacking.there, lacking.missing) == (2, 0, 2)
    assert not report.safe
    assert not report.moved
    assert "2 pods are not recreated" in " ".join(report.build_headline_parts())
    steps = whatif(
        build_cluster(build_running_pod("a"), build_running_pod("b"), build_running_pod("c", "m"), over),
        {"steps": [{"drain": {"nodes": ["n"]}}]},
    )
    assert [each.missing for each in steps.not_created] == [2]


def test_limit_range_newer_than_the_pods() -> None:
    big = build_running_pod("a", requests={"cpu": "2"}, limits={"cpu": "2"})
    (lacking,) = drain_nodes(build_cluster(big, build_limits(max={"cpu": "1"})), ["n"]).not_created
    (failure,) = lacking.failures
    assert failure.message == 'pods "web-*" is forbidden: maximum cpu usage per Container is 1, but limit is 2'


def test_steps_count_in_order() -> None:
    """The first workload uses two of the quota's three pods, so the second gets one of two."""
    steps: Any = [{"apply": {"manifests": [build_deployment(2, name=name)]}} for name in "ab"]
    document = {"apiVersion": "kschedctl.dev/v1", "kind": "Scenario", "name": "s", "steps": steps}
    report = whatif(build_cluster(build_quota("q", {"pods": "0"}, {"pods": "3"})), document)
    assert [(each.workload, each.missing) for each in report.not_created] == [("Deployment shop/b", 1)]
    assert report.build_headline_parts()[0] == "Not created:"


def test_scaling_counts() -> None:
    """Two of five pods exist, and the quota has room for one more. A deleted pod makes room for a later step."""
    used = build_quota("q", {"pods": "2"}, {"pods": "3"})
    pods = [build_running_pod("a"), build_running_pod("b", "m")]
    up: Any = {"scale": {"name": "web", "namespace": "shop", "replicas": 5}}
    report = whatif(build_cluster(*pods, used), {"steps": [up]})
    (lacking,) = report.not_created
    assert (lacking.workload, lacking.wanted, lacking.missing) == ("Deployment shop/web", 5, 2)
    assert (lacking.there, lacking.creatable) == (2, 1)
    assert lacking.headline.startswith("2 of 5 pods (5 wanted, 2 exist, 1 can be created): exceeded quota: q")
    assert [fix.what for fix in lacking.fixes] == ["raise ResourceQuota q to pods=5"]
    assert [change.change for change in report.changes] == ["Created"]
    down = {"scale": {"name": "web", "namespace": "shop", "replicas": 1}}
    other = {"apply": {"manifests": [build_deployment(3, name="other")]}}
    (lacking,) = whatif(build_cluster(*pods, used), {"steps": [down, other]}).not_created
    assert (lacking.workload, lacking.missing) == ("Deployment shop/other", 1)


def test_drain_sees_the_quotas_of_earlier_steps() -> None:
    """The applied pod uses the remaining pod of a quota of three.

    The drained pod makes room for its own replacement.
    """
    used = build_quota("q", {"pods": "2"}, {"pods": "3"})
    steps: Any = [
        {"apply": {"manifests": [build_deployment(1, name="other")]}},
        {"drain": {"nodes": ["n"]}},
        {"apply": {"manifests": [build_deployment(1, name="third")]}},
    ]
    report = whatif(build_cluster(build_running_pod("a"), build_running_pod("b", "m"), used), {"steps": steps})
    assert [(each.workload, each.missing) for each in report.not_created] == [("Deployment shop/third", 1)]


LEAVING: Any = {
    "fail": {"fail": {"nodes": ["n"]}},
    "removeNodes": {"removeNodes": {"nodes": ["n"]}},
    "taint": {"taint": {"nodes": ["n"], "add": [{"key": "down", "effect": "NoExecute"}]}},
}


@pytest.mark.parametrize("step", LEAVING.values(), ids=LEAVING)
@pytest.mark.parametrize(("hard", "missing"), [("1", 2), ("2", 1), ("3", 0)])
def test_replacements_of_lost_pods_are_counted_one_by_one(step: Any, hard: str, missing: int) -> None:
    """Three pods are in use, and two are lost at once.

    Of the two replacements, as many are created as the quota allows beside the third. A denied pod uses no quota, so a
    later step finds the remaining room.
    """
    over = build_quota("q", {"pods": "3"}, {"pods": hard})
    third = {"apply": {"manifests": [build_deployment(1, name="third")]}}
    report = whatif(
        build_cluster(build_running_pod("a"), build_running_pod("b"), build_running_pod("c", "m"), over),
        {"steps": [step, third]},
    )
    refused = {each.workload: each.missing for each in report.not_created}
    assert refused == ({"Deployment shop/web": missing} if missing else {}) | {"Deployment shop/third": 1}
    moved = {change.pod: change.change for change in report.changes}
    assert list(moved.values()) == ["Moved"] * (2 - missing) + ["Gone"] * missing
    assert not report.not_replayed


def test_bare_pod_leaves_its_quota() -> None:
    """A bare pod is lost with its node, and the next pod gets its place in the quota."""
    bare = build_running_pod("a")
    del bare["metadata"]["ownerReferences"]
    full = build_quota("q", {"pods": "2"}, {"pods": "2"})
    steps: Any = [LEAVING["fail"], {"apply": {"manifests": [build_deployment(2, name="other")]}}]
    report = whatif(build_cluster(bare, build_running_pod("b", "m"), full), {"steps": steps})
    assert [(each.workload, each.missing) for each in report.not_created] == [("Deployment shop/other", 1)]


def test_step_does_not_see_later_steps() -> None:
    """Room that the second step frees is of no use to the first."""
    full = build_quota("q", {"pods": "2"}, {"pods": "2"})
    other: Any = {"apply": {"manifests": [build_deployment(1, name="other")]}}
    bare = build_running_pod("a")
    del bare["metadata"]["ownerReferences"]
    report = whatif(build_cluster(bare, build_running_pod("b", "m"), full), {"steps": [other, LEAVING["fail"]]})
    assert [(each.workload, each.missing) for each in report.not_created] == [("Deployment shop/other", 1)]


def roll_out(surge: int, unavailable: int, hard: str) -> Any:
    """Roll out three pods of an old version that use all three pods of a quota."""
    changed = build_deployment(3, "200m")
    update = {"maxSurge": surge, "maxUnavailable": unavailable}
    changed["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": update}
    old = [build_running_pod(name, requests={"cpu": "100m"}) for name in "abc"]
    return simulate(build_cluster(*old, build_quota("q", {"pods": "3"}, {"pods": hard})), [changed], rollout=True)


def test_surge_needs_room_in_the_quota() -> None:
    """A fourth pod at the same time exceeds the quota, so no new pod is created and no old pod may be removed."""
    report = roll_out(1, 0, "3")
    (lacking,) = report.not_created
    assert (lacking.wanted, lacking.missing) == (3, 3)
    (failure,) = lacking.failures
    assert failure.message.endswith("exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3")
    assert report.workloads[0].rollout == "stuck: 0 of 3 new pods run, 3 old pods are left"
    assert not report.good


def test_unavailable_pod_makes_room_in_the_quota() -> None:
    report = roll_out(0, 1, "3")
    assert not report.not_created
    assert report.workloads[0].rollout == "complete"
    assert roll_out(1, 1, "3").good
    assert roll_out(1, 0, "4").good


def test_capacity_names_the_limit_that_ends_first() -> None:
    """The nodes have room for 2 × 64 pods of one CPU, and the quotas for 5 and for 500."""
    by_quota = capacity(
        build_cluster(build_quota("q", {"pods": "0"}, {"pods": "5"})), [build_deployment(1, "1")]
    ).shapes[0]
    assert (by_quota.fits, by_quota.created, by_quota.most) == (128, 5, 5)
    assert by_quota.limit_sentence.startswith(
        "The next one is not created: exceeded quota: q, requested: pods=1, used: pods=5"
    )
    room = "the nodes have room for 128"
    assert " ".join(by_quota.build_headline_parts()) == f"{by_quota.shape}: 5 more until the quota is used up; {room}"
    by_room = capacity(
        build_cluster(build_quota("q", {"pods": "0"}, {"pods": "500"})), [build_deployment(1, "1")]
    ).shapes[0]
    assert (by_room.fits, by_room.created, by_room.most) == (128, 500, 128)
    assert by_room.limit_sentence.startswith("room runs out first: 500 more are created, then exceeded quota: q")
    assert capacity(build_cluster(), [build_deployment(1, "1")]).shapes[0].limit_sentence == ""


def test_explained_manifest() -> None:
    report = explain(build_cluster(build_quota("q", {"pods": "0"}, {"pods": "1"})), build_deployment(3))
    assert report.verdict == "NotCreated"
    assert report.headline.startswith("2 of 3 pods (3 wanted, 1 can be created): exceeded quota: q, requested: pods=1")
    assert report.once_created is not None
    assert report.once_created.verdict == "Schedulable"


def test_defaults_of_a_manifest_are_reported() -> None:
    report = explain(build_cluster(build_limits(default={"cpu": "1"})), build_deployment(1, None))
    assert report.verdict == "Schedulable"
    assert report.stands_for.endswith("; requests.cpu 1, limits.cpu 1 by LimitRange shop/l")


def test_terminating_namespace() -> None:
    """The ReplicaSet is the first object that cannot be created."""
    leaving = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "n"}}
    report = explain(build_cluster({**leaving, "status": {"phase": "Terminating"}}), build_deployment(1))
    said = 'deployments.apps "web" is forbidden: unable to create new content in namespace shop because it is being'
    assert report.not_created is not None
    assert report.not_created.failures[0].message == f"{said} terminated"


def test_objects_are_counted() -> None:
    """One of two count/deployments.apps is left."""
    two = build_quota("q", {"count/deployments.apps": "1"}, {"count/deployments.apps": "2"})
    shapes = [build_deployment(1, name=name) for name in "ab"]
    report = simulate(build_cluster(two), shapes)
    (lacking,) = report.not_created
    assert lacking.workload == "Deployment shop/b"
    said = 'deployments.apps "b" is forbidden: exceeded quota: q, requested: count/deployments.apps=1'
    assert lacking.failures[0].message.startswith(said)


@pytest.mark.parametrize(("surge", "unavailable"), [(1, 0), (2, 0)])
def test_rollout_blocked_by_a_quota_has_fixes(surge: int, unavailable: int) -> None:
    """One more pod in the quota is enough for a surge of one or two. Without a surge, the quota suffices."""
    slower, more = roll_out(surge, unavailable, "3").not_created[0].fixes
    assert slower.what == "roll Deployment shop/web out with maxSurge 0 and maxUnavailable 1"
    assert roll_out(0, 1, "3").workloads[0].rollout == "complete"
    assert more.what == "raise ResourceQuota q to pods=4"
    (command,) = more.commands
    assert command.startswith("kubectl patch resourcequota -n shop q --type=merge -p ")
    assert roll_out(surge, unavailable, "4").workloads[0].rollout == "complete"


def simulate_larger_pods(surge: int, *, request: str, hard: str, replicas: int = 3, rollout: bool = False) -> Any:
    """Replace three pods of one CPU. The quota has `hard` CPUs, and either `surge` pods more or one fewer may run."""
    changed = build_deployment(replicas, request)
    update = {"maxSurge": surge, "maxUnavailable": 0 if surge else 1}
    changed["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": update}
    old = [build_running_pod(name, requests={"cpu": "1"}) for name in "abc"]
    quota = build_quota("q", {"requests.cpu": "3"}, {"requests.cpu": hard})
    return simulate(build_cluster(*old, quota), [changed], rollout=rollout)


def test_fixes_for_a_changed_deployment_outlast_its_rollout_with_surge() -> None:
    """Each fix leaves room for a new pod next to the three old ones.

    With pods of 1.2 CPUs, the rollout uses most when the last new pod runs beside one old pod: 3 * 1.2 + 1 CPUs.
    """
    (lacking,) = simulate_larger_pods(1, request="1200m", hard="3500m").not_created
    assert [fix.what for fix in lacking.fixes] == [
        "request 0.5 CPUs instead of 1.2",
        "set replicas to 2 instead of 3",
        "raise ResourceQuota q to requests.cpu=4600m",
    ]

    def complete(request: str, hard: str, replicas: int = 3) -> bool:
        report = simulate_larger_pods(1, request=request, hard=hard, replicas=replicas, rollout=True)
        return bool(report.workloads[0].rollout == "complete")

    assert complete("500m", "3500m")
    assert complete("1200m", "3500m", replicas=2)
    assert complete("1200m", "4600m")
    assert not complete("1200m", "4500m")
    assert not complete("1166m", "3500m")  # although three pods of this size fit into the quota
    assert not complete("1200m", "3600m")


def test_fixes_for_a_changed_deployment_are_made_in_its_manifest() -> None:
    """The Deployment exists, but applying the manifest would undo a patch of it."""
    (lacking,) = simulate_larger_pods(1, request="1200m", hard="3500m").not_created
    in_manifest = {fix.what: (fix.edits, fix.commands) for fix in lacking.fixes if fix.by == "author"}
    assert in_manifest == {
        "request 0.5 CPUs instead of 1.2": (
            ("spec.template.spec.containers[0].resources.requests.cpu: 500m",),
            (),
        ),
        "set replicas to 2 instead of 3": (("spec.replicas: 2",), ()),
    }


def test_number_of_pods_in_the_quota_does_not_prevent_smaller_requests() -> None:
    """Two new pods come before the first old one leaves: 7.1 - 5 * 1.1 = 2 * 0.8 CPUs. Only 8 pods are allowed."""
    changed = build_deployment(7, "1200m")
    changed["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}
    old = [build_running_pod(name, requests={"cpu": "1100m"}) for name in "abcde"]
    used, hard = {"requests.cpu": "5500m", "pods": "5"}, {"requests.cpu": "7100m", "pods": "8"}
    cluster = build_cluster(*old, build_quota("q", used, hard))
    (lacking,) = simulate(cluster, [changed]).not_created
    assert lacking.fixes[0].what == "request 0.8 CPUs instead of 1.2"
    for request, is_complete in (("800m", True), ("801m", False)):
        smaller = build_deployment(7, request)
        smaller["spec"]["strategy"] = changed["spec"]["strategy"]
        rolled_out = simulate(cluster, [smaller], rollout=True).workloads[0].rollout
        assert (rolled_out == "complete") is is_complete


def test_smaller_requests_suffice_if_old_pods_leave_first() -> None:
    (lacking,) = simulate_larger_pods(0, request="1200m", hard="3500m").not_created
    assert [fix.what for fix in lacking.fixes] == [
        "request 1.166 CPUs instead of 1.2",
        "set replicas to 2 instead of 3",
        "raise ResourceQuota q to requests.cpu=3600m",
    ]
    for request, hard, replicas in (("1166m", "3500m", 3), ("1200m", "3500m", 2), ("1200m", "3600m", 3)):
        report = simulate_larger_pods(0, request=request, hard=hard, replicas=replicas, rollout=True)
        assert report.workloads[0].rollout == "complete"


def test_scenario_has_fixes_for_denied_pods() -> None:
    changed = build_deployment(3, "200m")
    changed["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    old = [build_running_pod(name, requests={"cpu": "100m"}) for name in "abc"]
    step: Any = {"apply": {"manifests": [changed], "rollout": True}}
    (lacking,) = whatif(
        build_cluster(*old, build_quota("q", {"pods": "3"}, {"pods": "3"})), {"steps": [step]}
    ).not_created
    assert [fix.kinds for fix in lacking.fixes] == [("RollOutWithoutSurge",), ("RaiseResourceQuota",)]


def test_quota_after_the_loss_of_a_node() -> None:
    """Three pods use a quota of one. Once two are lost, the third uses it up."""
    pods = build_running_pod("a"), build_running_pod("b"), build_running_pod("c", "m")
    within = kschedctl.failures(build_cluster(*pods, build_quota("q", {"pods": "3"}, {"pods": "3"})), "node")
    assert [loss.not_created for loss in within.failures] == [(), ()]
    assert within.safe
    report = kschedctl.failures(build_cluster(*pods, build_quota("q", {"pods": "3"}, {"pods": "1"})), "node")
    worst, other = report.failures
    (lacking,) = worst.not_created
    assert (worst.name, worst.displaced, worst.unplaced, lacking.missing) == ("n", 2, 0, 2)
    assert (other.name, other.displaced, [each.missing for each in other.not_created]) == ("m", 1, [1])
    assert "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1" in lacking.headline
    assert not report.safe


def test_newer_limit_range_denies_replacements_of_lost_pods() -> None:
    big = build_running_pod("a", requests={"cpu": "2"}, limits={"cpu": "2"})
    worst = kschedctl.failures(build_cluster(big, build_limits(max={"cpu": "1"})), "node").failures[0]
    (lacking,) = worst.not_created
    assert "maximum cpu usage per Container is 1, but limit is 2" in lacking.headline
