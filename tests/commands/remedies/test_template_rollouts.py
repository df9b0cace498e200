"""Check that a template change is verified as a rollout: rejected if it does harm, else shown with its effects."""

from __future__ import annotations

import pytest
import yaml
from small import HOSTNAME, Json, build_budget, build_node, build_pod, build_replica, build_spread, build_workload

from kschedctl import Cluster, demo, explain, remedies
from kschedctl.commands.remedies.report import Remedies
from kschedctl.commands.simulate import simulate
from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.fixes.search import RemedyCriteria
from kschedctl.reports.remedy import Remedy

HIGH = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
DEDICATED = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}
APART = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [WEB]}}}


def find_remedies(documents: list[Json], *kinds: str, key: str = "d/r") -> Remedies:
    """Find the remedies of some kinds."""
    return remedies(Cluster.from_objects(documents), key, RemedyCriteria(1, only=frozenset(kinds)))


def find_only_remedy(documents: list[Json], *kinds: str, key: str = "d/r") -> Remedy:
    (remedy,) = find_remedies(documents, *kinds, key=key).remedies
    return remedy


def simulate_rollout(documents: list[Json], manifest: Json) -> SimulationReport:
    """Simulate the rollout of a manifest."""
    return simulate(Cluster.from_objects(documents), [manifest], rollout=True)


def build_deployment(replicas: int, **spec: object) -> Json:
    template = {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}], **spec}
    return build_workload("Deployment", spec={"replicas": replicas}, template=template)


# -- evictions of one's own ------------------------------------------------------------------------------------------


def test_class_that_evicts_siblings_is_rejected() -> None:
    """Three pods that keep apart have two nodes. The verified rollout to a higher class equals that of simulate."""
    documents = [build_node("n1"), build_node("n2"), HIGH]
    documents += [build_replica("a", "n1", **APART), build_replica("b", "n2", **APART), build_replica("r", **APART)]
    report = find_remedies(documents, "UsePriorityClass")
    assert report.remedies == ()
    assert (
        "use PriorityClass high (priority 1,000 instead of 0): the rollout would evict pods of the same workload"
        in report.impossible
    )
    changed = simulate_rollout(documents, build_deployment(3, priorityClassName="high", **APART))
    assert changed.evicted
    assert changed.workloads[0].rollout.startswith("stuck")


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_class_that_only_displaces_another_replica_is_rejected(kind: str) -> None:
    """The node takes only one of two pods that keep apart, whatever their class."""
    manifest = build_deployment(2, **APART)
    manifest["kind"] = kind
    cluster = Cluster.from_objects([build_node("n1"), HIGH])
    report = remedies(cluster, manifest, RemedyCriteria(1, only=frozenset({"UsePriorityClass"})))
    assert report.replicas is not None
    assert (report.replicas.placed, report.replicas.total) == (1, 2)
    assert report.remedies == ()
    assert [line for line in report.impossible if line.endswith("1 of its pods has a node now, 1 afterwards")]


def test_higher_class_of_redis_is_rejected_in_the_demo() -> None:
    documents = yaml.load(demo.list_files()[0].read_text(), yaml.CSafeLoader)["items"]
    report = remedies(Cluster.from_objects(documents), "shop/redis-66c8d9f7b5-p6nql", RemedyCriteria(1))
    assert not [each for each in report.remedies if "UsePriorityClass" in each.kinds]
    assert [line for line in report.impossible if "would evict pods of the same workload" in line]


def test_victims_of_the_whole_workload_are_named() -> None:
    """The rollout may have three of two pods, so both new pods come at once.

    Each evicts a pod that no budget protects.
    """
    documents = [build_node(f"n{i}", cpu="1") for i in range(3)]
    documents += [
        HIGH,
        build_budget(0),
        build_replica("a", "n0"),
        build_replica("r"),
        build_pod("other-1", "n1"),
        build_pod("other-2", "n2"),
    ]
    for other in documents[-2:]:
        other["metadata"]["labels"] = {"app": "other"}
    remedy = find_only_remedy(documents, "UsePriorityClass")
    assert sorted(remedy.victims) == ["d/other-1", "d/other-2"]
    assert remedy.restarts == 1


# -- rollouts that do not end ----------------------------------------------------------------------------------------


def test_stuck_rollout_is_rejected() -> None:
    """Half a CPU is free.

    Two replicas may become three, but not fewer, so the second new pod waits for the room of an old one.
    """
    documents = [
        build_node("n1", cpu="2"),
        build_pod("other", "n1", "500m"),
        build_replica("a", "n1"),
        build_replica("r"),
    ]
    report = find_remedies(documents, "LowerRequest")
    assert report.remedies == ()
    assert [line for line in report.impossible if "the rollout gets stuck: 1 of 2 new pods runs" in line]
    changed = build_deployment(2)
    changed["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500m"
    assert simulate_rollout(documents, changed).workloads[0].rollout == "stuck: 1 of 2 new pods runs, 1 old pod is left"


@pytest.mark.parametrize("limit", ["1800m", "1900m"])
def test_rollout_of_a_single_pod_needs_quota_for_old_and_new_pod(limit: str) -> None:
    """A Deployment creates the new pod before it removes its only old one, so the quota has to allow both."""
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "d"},
        "spec": {"hard": {"requests.cpu": limit}},
        "status": {"hard": {"requests.cpu": limit}, "used": {"requests.cpu": "1"}},
    }
    documents = [build_node("n1", cpu="900m"), build_replica("r"), quota]
    changed = build_deployment(1)
    changed["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "900m"
    rolled_out = simulate_rollout(documents, changed).workloads[0].rollout
    report = find_remedies(documents, "LowerRequest")
    if limit == "1900m":
        assert rolled_out == "complete"
        assert [remedy.kinds for remedy in report.remedies] == [("LowerRequest",)]
    else:
        assert rolled_out == "stuck: 0 of 1 new pod run, 1 old pod is left"
        assert report.remedies == ()
        denial = "the new pods cannot be created: exceeded quota: q, requested: requests.cpu=900m"
        (line,) = (line for line in report.impossible if denial in line)
        assert line.endswith(
            "maxUnavailable 1, the rollout completes, and no running pod goes down, because none has a node now"
        )


def test_change_with_fewer_running_pods_is_rejected() -> None:
    """The recreated Job fits the other pool with one of its three pods, and two run now."""
    documents = [build_node("n1", cpu="1"), build_node("q1", cpu="2")]
    documents[1]["metadata"]["labels"]["pool"] = "q"
    owner, own = {"kind": "Job", "name": "j"}, {"nodeSelector": {"pool": "q"}}
    documents += [build_pod(name, "q1", owner=owner, **own) for name in "ab"] + [build_pod("r", owner=owner, **own)]
    report = find_remedies(documents, "OtherSelector")
    assert report.remedies == ()
    assert [line for line in report.impossible if "2 of its pods have a node now, 1 afterwards" in line]


# -- anti-affinity of the siblings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job"])
def test_replicas_of_a_manifest_lose_their_anti_affinity_together(kind: str) -> None:
    """The first replica would keep out the second as long as its own term was still required."""
    containers = [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}]
    count = {"parallelism": 3, "completions": 3} if kind == "Job" else {"replicas": 3}
    manifest = build_workload(kind, spec=count, template={"containers": containers, **APART})
    report = remedies(Cluster.from_objects([build_node("n1")]), manifest, RemedyCriteria(1, by="author"))
    assert report.replicas is not None
    assert (report.replicas.placed, report.replicas.total) == (1, 3)
    remedy = next(each for each in report.remedies if each.kinds == ("SoftenAntiAffinity",))
    assert remedy.holds
    assert remedy.also_places
    assert all(" Pending" not in cost.text for cost in remedy.all_costs)


def test_running_replicas_lose_their_anti_affinity_in_the_rollout() -> None:
    """All pods of a Job are recreated.

    The rollout of a Deployment gets stuck, since its old pods keep out each new pod.
    """
    owner = {"kind": "Job", "name": "j"}
    documents = [build_node("n1"), build_pod("a", "n1", owner=owner, **APART), build_pod("r", owner=owner, **APART)]
    assert find_only_remedy(documents, "SoftenAntiAffinity").holds
    documents = [build_node("n1"), build_replica("a", "n1", **APART), build_replica("r", **APART)]
    report = find_remedies(documents, "SoftenAntiAffinity")
    assert report.remedies == ()
    (line,) = (line for line in report.impossible if "the rollout gets stuck" in line)

    # Only without old pods is there room, so both have to leave before a new pod comes
    assert line.endswith("maxUnavailable 2, the rollout completes, but up to 2 of its pods are down at a time")
    advice = explain(Cluster.from_objects(documents), "d/r", remedies=True).advice
    assert next(entry.text for entry in advice if entry.kind == "KeepApartLess").endswith(
        "or make the anti-affinity term preferred and roll it out with maxSurge 0 and maxUnavailable 2 "
        "(up to 2 of its pods are then down at a time)"
    )
    for max_unavailable, status in ((1, "stuck"), (2, "complete")):
        changed = build_deployment(2)
        update = {"maxSurge": 0, "maxUnavailable": max_unavailable}
        changed["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": update}
        assert simulate_rollout(documents, changed).workloads[0].rollout.startswith(status)


# -- what the other controllers need -----------------------------------------------------------------------------------


def test_pod_that_blocks_its_stateful_set_is_deleted() -> None:
    owner = {"kind": "StatefulSet", "name": "db"}
    documents = [build_node("n1", cpu="1"), build_node("n2", taints=[DEDICATED])]
    documents += [build_pod("db-0", "n1", owner=owner), build_pod("db-1", owner=owner)]
    remedy = find_only_remedy(documents, "Tolerate", key="d/db-1")
    assert remedy.commands[-1] == "kubectl delete pod -n d db-1"
    assert remedy.commands[0].startswith("kubectl patch statefulset -n d db ")
    assert remedy.restarts == 1


def test_pods_of_a_bare_replica_set_keep_their_template() -> None:
    owner = {"kind": "ReplicaSet", "name": "solo"}
    documents = [build_node("n1", cpu="1"), build_node("n2", taints=[DEDICATED])]
    documents += [build_pod("solo-a", "n1", owner=owner), build_pod("solo-b", owner=owner)]
    remedy = find_only_remedy(documents, "Tolerate", key="d/solo-b")
    assert remedy.commands[-1] == "kubectl delete pod -n d solo-b"
    assert remedy.restarts == 0


def test_strategy_of_the_manifest_decides() -> None:
    """Two pods of half a CPU become two pods of 2 CPUs on a node of 4. They fit only once both old pods are gone."""
    documents = [
        build_node("n1", cpu="4", taints=[DEDICATED]),
        build_replica("a", "n1", "500m"),
        build_replica("b", "n1", "500m"),
    ]
    manifest = build_deployment(2)
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    criteria = RemedyCriteria(1, only=frozenset({"Tolerate"}))
    for strategy, helps in (("RollingUpdate", False), ("Recreate", True)):
        manifest["spec"]["strategy"] = {"type": strategy}
        report = remedies(Cluster.from_objects(documents), manifest, criteria)
        assert bool(report.remedies) is helps, strategy


# -- label keys --------------------------------------------------------------------------------------------------------


def test_pods_of_the_new_revision_may_block_a_rollout() -> None:
    """The first new pod has zone a to itself. The second finds zone a occupied, and zone b takes no pods."""
    documents = [build_node("n1"), build_node("n2"), build_node("n3", "b", taints=[DEDICATED])]
    documents += [build_replica("p", "n1"), build_replica("q", "n2"), build_replica("r", **build_spread())]
    for old in documents[3:5]:
        old["metadata"]["labels"]["pod-template-hash"] = "4e"
        old["metadata"]["ownerReferences"][0]["name"] = "web-4e"
    report = find_remedies(documents, "MatchLabelKeys")
    assert report.remedies == ()
    assert [line for line in report.impossible if "pod-template-hash" in line and "gets stuck: 1 of 3" in line]


def test_merged_label_keys_are_not_written_into_the_template() -> None:
    """The API server adds pod-template-hash In (5f) to the pod's selector, but the next revision has another hash."""
    merged = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "pod-template-hash", "operator": "In"}]}
    merged["matchExpressions"][0]["values"] = ["5f"]  # type: ignore[index]
    term = {**WEB, "labelSelector": merged, "matchLabelKeys": ["pod-template-hash"]}
    own = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    documents = [build_node("n1"), build_replica("a", "n1"), build_replica("r", **own)]
    remedy = find_only_remedy(documents, "SoftenAntiAffinity")
    assert "5f" not in yaml.safe_dump(remedy.owner_patch)
