"""Check which fixes are found, their order, and that applying each lets the pod schedule."""

from __future__ import annotations

import pytest
from applied import apply
from small import ZONE, Json, build_node, build_pod, build_replica, build_spread, build_workload

from kschedctl import Cluster, remedies
from kschedctl.commands.explain.fixes import add_fixes
from kschedctl.commands.explain.one_pod import explain, explain_target, find_or_create_target
from kschedctl.errors import UsageError
from kschedctl.fixes.search import RemedyCriteria
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS

TEAM = {"key": "team", "value": "yes", "effect": "NoSchedule"}


def build_cluster_with_two_ways(*more: Json) -> list[Json]:
    """Build a full n1, a tainted n2 and a cordoned n3: two ways for the author and two for the operator."""
    return [
        build_node("n1", cpu="1"),
        build_node("n2", taints=[TEAM]),
        build_node("n3", unschedulable=True),
        build_pod("p", cpu="2"),
        *more,
    ]


def list_kinds(
    documents: list[Json], key: str = "d/p", criteria: RemedyCriteria = RemedyCriteria()
) -> list[tuple[str, ...]]:
    return [each.kinds for each in remedies(Cluster.from_objects(documents), key, criteria).remedies]


def test_order_of_fixes() -> None:
    """Harmless fixes come first, and fixes that weaken a guarantee come last."""
    assert list_kinds(build_cluster_with_two_ways(), criteria=RemedyCriteria(1)) == [
        ("Uncordon",),
        ("AddNode",),
        ("Tolerate",),
        ("LowerRequest",),
        ("RemoveTaint",),
    ]


def test_each_applied_fix_places_the_pod_on_the_promised_node() -> None:
    documents = build_cluster_with_two_ways(build_pod("other", "n1", "500m"))
    found = remedies(Cluster.from_objects(documents), "d/p").remedies
    assert len(found) >= 5
    for remedy in found:
        after = explain(Cluster.from_objects(apply(remedy, documents)), "d/p")
        assert (after.verdict, tuple(sorted(after.feasible))) == ("Schedulable", remedy.opens), remedy.summary


def test_only_requested_kinds() -> None:
    documents = build_cluster_with_two_ways()
    assert list_kinds(documents, criteria=RemedyCriteria(1, by="operator")) == [
        ("Uncordon",),
        ("AddNode",),
        ("RemoveTaint",),
    ]
    assert list_kinds(documents, criteria=RemedyCriteria(1, only=frozenset({"Tolerate"}))) == [("Tolerate",)]
    without = RemedyCriteria(1, without=frozenset({"Tolerate", "Uncordon"}))
    assert list_kinds(documents, criteria=without) == [("AddNode",), ("LowerRequest",), ("RemoveTaint",)]


def test_fixes_of_two_changes_have_no_needless_change() -> None:
    documents = [build_node("n1", cpu="1", taints=[TEAM]), build_pod("p", cpu="2")]
    assert list_kinds(documents, criteria=RemedyCriteria(1)) == []
    found = list_kinds(documents, criteria=RemedyCriteria(2))
    assert {frozenset(each) for each in found} == {
        frozenset({"Tolerate", "LowerRequest"}),
        frozenset({"Tolerate", "AddNode"}),
        frozenset({"RemoveTaint", "LowerRequest"}),
    }


def test_reasons_why_kinds_of_fixes_are_impossible() -> None:
    documents = [build_node("n1", cpu="31500m"), build_pod("p", cpu="64")]
    report = remedies(Cluster.from_objects(documents), "d/p")
    assert report.impossible == (
        "freeing room on existing nodes: the pod needs 64 CPUs, but the largest node has only 31.5",
        "a higher PriorityClass: none above priority 0 lets pods preempt (system classes were not tried)",
    )
    assert [each.summary for each in report.remedies] == [
        "Add a node like n1 (pool p) but with 64 CPUs",
        "Request 31.5 CPUs instead of 64 in container c",
    ]


def test_fix_that_halves_a_request_says_how_much_remains() -> None:
    """1.2 CPUs are free, which is 80% of 1.5 CPUs and 30% of 4."""
    drawbacks = {}
    for cpu in ("1500m", "4"):
        documents = [build_node("n1", cpu="1200m"), build_pod("p", cpu=cpu)]
        criteria = RemedyCriteria(1, only=frozenset({"LowerRequest"}))
        (fix,) = remedies(Cluster.from_objects(documents), "d/p", criteria).remedies
        drawbacks[cpu] = fix.drawbacks
    recreated = "pod d/p is deleted and recreated"
    assert drawbacks == {
        "1500m": (recreated,),
        "4": ("the container keeps only 30% of its CPU request", recreated),
    }


def test_larger_node_has_room_for_daemon_set_pods() -> None:
    """The pod needs 3 cores and the agent's pod half a core, so the node has 4."""
    agent = build_pod("agent-x", "n1", "500m", owner={"kind": "DaemonSet", "name": "agent"})
    documents = [build_node("n1", cpu="2"), agent, build_pod("p", cpu="3")]
    criteria = RemedyCriteria(1, only=frozenset({"AddNode"}))
    (found,) = remedies(Cluster.from_objects(documents), "d/p", criteria).remedies
    assert found.summary == "Add a node like n1 (pool p) but with 4 CPUs, enough for DaemonSet pods as well"
    assert explain(Cluster.from_objects(apply(found, documents)), "d/p").verdict == "Schedulable"


def test_no_node_is_added_if_a_daemon_set_holds_the_port() -> None:
    port = {"ports": [{"containerPort": 1, "hostPort": 9100}]}
    agent = build_pod("agent-x", "n1", owner={"kind": "DaemonSet", "name": "agent"}, containers=[{"name": "c", **port}])
    documents = [build_node("n1"), agent, build_pod("p", containers=[{"name": "c", **port}])]
    assert list_kinds(documents, criteria=RemedyCriteria(1)) == [("OtherHostPort",), ("DropHostPort",)]


HIGH = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
BY_CLASS = RemedyCriteria(1, only=frozenset({"UsePriorityClass"}))


def test_fix_by_a_higher_class_names_its_victims() -> None:
    documents = [
        build_node("n1", cpu="2"),
        build_pod("equal", "n1", "2", priority=10),
        build_pod("p", cpu="2", priority=10),
        HIGH,
    ]
    (found,) = remedies(Cluster.from_objects(documents), "d/p", BY_CLASS).remedies
    assert (found.opens, found.victims) == (("n1",), ("d/equal",))
    assert found.weakens == (
        "the pod can then preempt any pod of lower priority; evicts d/equal (no controller recreates d/equal); "
        "pod d/p is deleted and recreated"
    )
    after = explain(Cluster.from_objects(apply(found, documents)), "d/p")
    assert after.preemption is not None
    assert (after.verdict, after.preemption.chosen) == ("Unschedulable", "n1")


def test_violated_budget_is_named() -> None:
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "d"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0},
    }
    owned = build_pod("equal", "n1", "2", {"kind": "ReplicaSet", "name": "other"}, priority=10)
    documents = [build_node("n1", cpu="2"), owned, build_pod("p", cpu="2", priority=10), HIGH, budget]
    (found,) = remedies(Cluster.from_objects(documents), "d/p", BY_CLASS).remedies
    assert found.weakens == (
        "the pod can then preempt any pod of lower priority; "
        "evicts d/equal (1 eviction violates a PodDisruptionBudget), which stays Pending; "
        "pod d/p is deleted and recreated"
    )


@pytest.mark.parametrize(
    ("owner", "clause"),
    [
        (None, "pod d/p is deleted and recreated"),
        ({"kind": "ReplicaSet", "name": "web"}, "d/p, which waits, is deleted and recreated"),
    ],
)
def test_each_form_says_that_commands_recreate_the_pod(owner: Json | None, clause: str) -> None:
    """The requests of a pod cannot be lowered in place, and a ReplicaSet does not replace a waiting pod."""
    cluster = Cluster.from_objects([build_node("n1", cpu="1"), build_pod("p", cpu="1500m", owner=owner)])
    report = remedies(cluster, "d/p", RemedyCriteria(1, only=frozenset({"LowerRequest"})))
    (fix,) = report.remedies
    assert any("--force" in command or "delete pod" in command for command in fix.commands)
    assert clause in fix.drawbacks
    (short,) = report.summary().fixes
    assert clause in short.but
    for form in ("table", "brief", "markdown", "html"):
        assert clause in " ".join(RENDERERS[form](report, Style(width=300)).split())


def test_no_higher_class_for_a_pod_that_already_preempts() -> None:
    documents = [
        build_node("n1", cpu="2"),
        build_pod("lower", "n1", "2", priority=0),
        build_pod("p", cpu="2", priority=10),
        HIGH,
    ]
    report = remedies(Cluster.from_objects(documents), "d/p", BY_CLASS)
    assert (report.remedies, [line for line in report.impossible if "PriorityClass" in line]) == ((), [])


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "CronJob"])
def test_fix_names_the_fields_of_a_workloads_manifest(kind: str) -> None:
    template = {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "2"}}}]}
    manifest = build_workload(kind, template=template)
    if kind == "CronJob":
        template |= {"restartPolicy": "Never"}
        manifest["spec"] = {
            "schedule": "@daily",
            "jobTemplate": {"spec": {"template": manifest["spec"]["template"]}},
        }
    cluster = Cluster.from_objects([build_node("n1", taints=[TEAM])])
    report = remedies(cluster, manifest, RemedyCriteria(1, only=frozenset({"Tolerate"})))
    (changed,) = apply(report.remedies[0], [manifest])
    assert explain(cluster, manifest).verdict == "Unschedulable"
    assert explain(cluster, changed).verdict == "Schedulable"
    assert {**changed, "spec": None} == {**manifest, "spec": None}


def test_fix_names_the_fields_of_a_pod_manifest() -> None:
    manifest = build_pod("p", cpu="2")
    del manifest["metadata"]["uid"]
    del manifest["status"], manifest["spec"]["nodeName"]
    cluster = Cluster.from_objects([build_node("n1", taints=[TEAM])])
    for remedy in remedies(cluster, manifest, RemedyCriteria(1, by="author")).remedies:
        (changed,) = apply(remedy, [manifest])
        assert explain(cluster, changed).verdict == "Schedulable"


def test_command_patches_the_pods_workload() -> None:
    documents = [build_node("n1", taints=[TEAM]), build_replica("r")]
    found = remedies(Cluster.from_objects(documents), "d/r", RemedyCriteria(1, by="author")).remedies[0]
    assert found.owner == "Deployment d/web"
    toleration = {"key": "team", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    assert found.owner_patch == {"spec": {"template": {"spec": {"tolerations": [toleration]}}}}
    assert found.commands[0].startswith("kubectl patch deployment -n d web --type strategic -p '{")


def test_lists_that_a_strategic_merge_would_merge_are_replaced() -> None:
    """topologySpreadConstraints are merged by topologyKey, so that the old constraint would remain."""
    documents = [
        build_node("n1", zone="a"),
        build_node("n2", zone="b", cpu="0"),
        build_replica("q", "n1"),
        build_replica("r", **build_spread(ZONE)),
    ]
    criteria = RemedyCriteria(1, only=frozenset({"ScheduleAnyway"}))
    (found,) = remedies(Cluster.from_objects(documents), "d/r", criteria).remedies
    (directive, constraint) = found.owner_patch["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert (directive, constraint["whenUnsatisfiable"]) == ({"$patch": "replace"}, "ScheduleAnyway")


def test_immutable_objects_are_recreated() -> None:
    """A pod accepts only additional tolerations, and the template of a Job is immutable."""
    for owner in (None, {"kind": "Job", "name": "j"}):
        documents = [build_node("n1", cpu="1"), build_pod("p", cpu="2", owner=owner)]
        (lower,) = remedies(Cluster.from_objects(documents), "d/p", RemedyCriteria(1, by="author")).remedies
        (command,) = lower.commands
        assert command.startswith(f"kubectl patch {'job' if owner else 'pod'} -n d ")
        assert command.endswith(" --dry-run=client -o json | kubectl replace --force -f -")
    documents = [build_node("n1", taints=[TEAM]), build_pod("p")]
    (tolerate,) = remedies(Cluster.from_objects(documents), "d/p", RemedyCriteria(1, by="author")).remedies
    assert tolerate.commands[0].startswith("kubectl patch pod -n d p ")


def test_pods_that_need_no_fixes() -> None:
    """For a pod that fits, runs or is held back, the verdict is the answer, and no fix is searched for."""
    gated = build_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    cluster = Cluster.from_objects([build_node("n1"), build_pod("fits"), build_pod("runs", "n1"), gated])
    for name, verdict in (("fits", "Schedulable"), ("runs", "Bound"), ("gated", "Gated")):
        report = remedies(cluster, f"d/{name}")
        assert (report.verdict, report.remedies, report.searched) == (verdict, (), None)
        assert report.headline
    with pytest.raises(UsageError, match='pod "d/none" not found'):
        remedies(cluster, "d/none")


def test_pod_that_no_profile_serves() -> None:
    documents = [build_node("n1"), build_pod("p", schedulerName="mine")]
    (found,) = remedies(Cluster.from_objects(documents), "d/p").remedies
    assert found.kinds == ("OtherScheduler",)
    assert explain(Cluster.from_objects(apply(found, documents)), "d/p").verdict == "Schedulable"


def test_explanation_ends_with_the_best_of_the_smallest_fixes() -> None:
    asked = find_or_create_target(Cluster.from_objects(build_cluster_with_two_ways()), "d/p")
    report = add_fixes(explain_target(asked), asked)
    assert [each.kinds for each in report.remedies][:2] == [("Uncordon",), ("AddNode",)]
    assert all(len(each.kinds) == 1 for each in report.remedies)
    assert len(report.remedies) == 5


def test_alternatives_are_reported_once() -> None:
    documents = [
        build_node("n1", unschedulable=True),
        build_node("n2", unschedulable=True, taints=[{**TEAM, "effect": "PreferNoSchedule"}]),
    ]
    documents.append(build_pod("p"))
    first = remedies(Cluster.from_objects(documents), "d/p", RemedyCriteria(1)).remedies[0]
    assert (first.summary, first.alternatives) == ("Find out why node n1 is cordoned, then uncordon it", ("n2",))


def test_largest_fitting_request_is_proposed_although_fewer_nodes_fit() -> None:
    documents = [
        build_node("n1", cpu="3"),
        build_node("n2", cpu="3"),
        build_node("n3", cpu="3010m"),
        build_pod("p", cpu="4"),
    ]
    (found,) = remedies(Cluster.from_objects(documents), "d/p", RemedyCriteria(1, by="author")).remedies
    assert (found.summary, found.opens) == ("Request 3.01 CPUs instead of 4 in container c", ("n3",))


def test_unread_classes_are_not_called_missing() -> None:
    """The documents are no complete lists, so other classes may exist."""
    cluster = Cluster.from_objects([build_node("n1", cpu="1"), build_pod("p", cpu="2")], assume_complete=False)
    assert not [line for line in remedies(cluster, "d/p").impossible if "PriorityClass" in line]
