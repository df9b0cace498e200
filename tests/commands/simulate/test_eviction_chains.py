"""Check replacements of evicted pods that preempt in turn, take other nodes, or return to their node."""

from __future__ import annotations

from random import Random

import pytest
from small import HOSTNAME, ZONE, Json, build_budget, build_node, build_pod, build_pod_spec, build_workload

from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.commands.drain import drain_nodes
from kschedctl.commands.explain.cycle_report import explain_pod
from kschedctl.commands.explain.one_pod import find_or_create_target
from kschedctl.commands.remedies.pod_fixes import find_pod_remedies
from kschedctl.commands.remedies.report import Remedies
from kschedctl.commands.simulate import simulate
from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.fixes.search import RemedyCriteria
from kschedctl.replay.settling import settle
from kschedctl.scheduler.scheduler import Scheduler

CLASSES: list[Json] = [
    {"kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in (("high", 100), ("mid", 50))
]


def run(objects: list[Json], *manifests: Json, **options: object) -> SimulationReport:
    return simulate(Cluster.from_objects([*CLASSES, *objects]), manifests, **options)  # type: ignore[arg-type]


def build_owned_pod(kind: str, name: str, node_name: str, cpu: str, **spec: object) -> Json:
    """Build a running pod ``d/NAME`` with the label app=NAME, controlled by a workload of the same name."""
    made = build_pod(name, node_name, cpu, {"kind": kind, "name": name}, **spec)
    made["metadata"]["labels"] = {"app": name}
    return made


def build_node_selector(name: str) -> Json:
    return {"nodeSelector": {HOSTNAME: name}}


def build_anti_affinity(app: str) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def test_replacement_of_a_victim_preempts() -> None:
    """Each pod needs a whole node. urgent evicts mid from n1, mid's replacement evicts low from n2, and low stays
    pending."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_owned_pod("ReplicaSet", "mid", "n1", "4", priority=50),
        build_owned_pod("ReplicaSet", "low", "n2", "4", priority=0),
    ]
    report = run(objects, build_pod("urgent", cpu="4", priorityClassName="high", **build_node_selector("n1")))
    assert [(e.pod, e.node, e.by, e.round, e.fate, e.target) for e in report.evicted] == [
        ("d/mid", "n1", "d/urgent", 1, "Moved", "n2"),
        ("d/low", "n2", "d/mid", 2, "Pending", ""),
    ]
    assert report.placements == {"d/urgent": "n1"}
    chain = report.chain
    assert chain is not None
    assert (chain.evicted, chain.moved, chain.returned, chain.pending, chain.lost, chain.rounds) == (2, 1, 0, 1, 0, 2)
    assert chain.sentence == (
        "evicts 2 pods: 1 gets another node, 1 stays Pending, and 1 replacement evicts d/low in turn"
    )
    assert (report.placed, report.unplaced) == (1, 0)


def test_pod_evicted_twice_is_listed_twice() -> None:
    """urgent evicts mid from n1. mid fits only on n2, alone. Then second evicts mid from n2."""
    objects = [build_node("n1"), build_node("n2"), build_owned_pod("ReplicaSet", "mid", "n1", "4", priority=50)]
    high: Json = {"cpu": "4", "priorityClassName": "high"}
    report = run(
        objects,
        build_pod("a", **high, **build_node_selector("n1")),
        build_pod("b", **high, **build_node_selector("n2")),
    )
    assert report.placements == {"d/a": "n1", "d/b": "n2"}
    assert report.chain is not None
    assert (report.chain.evicted, report.chain.pending) == (1, 1)


def test_replacement_does_not_take_nominated_room() -> None:
    """Of 4 cores, urgent takes 2, so web, which needs 3, cannot return. It gets n2."""
    objects = [build_node("n1"), build_node("n2"), build_owned_pod("ReplicaSet", "web", "n1", "3")]
    report = run(objects, build_pod("urgent", cpu="2", priorityClassName="high", **build_node_selector("n1")))
    assert report.placements == {"d/urgent": "n1"}
    assert [(e.pod, e.fate, e.target) for e in report.evicted] == [("d/web", "Moved", "n2")]
    assert report.chain is not None
    assert not report.chain.goes_on


def simulate_anti_affine_pod(*running: Json) -> SimulationReport:
    """Simulate a pod of 2 cores with anti-affinity to agents, on n1 of 4 cores with an agent of 500m.

    The nominated pod's anti-affinity counts for no pod. If no running pod has such terms, InterPodAffinity's PreFilter
    skips the agent, also for nodes to which pods are nominated.
    """
    agent = build_owned_pod("DaemonSet", "agent", "n1", "500m", **build_node_selector("n1"))
    urgent = build_pod(
        "urgent", cpu="2", priorityClassName="high", **build_node_selector("n1"), **build_anti_affinity("agent")
    )
    return run([build_node("n1"), agent, *running], urgent)


def test_replacement_kept_away_only_by_affinity_returns_to_its_node() -> None:
    """web, of 3 cores, is evicted as well. agent is back before web has terminated.

    Once urgent gives up, web fits again.
    """
    report = simulate_anti_affine_pod(build_owned_pod("ReplicaSet", "web", "n1", "3"))
    assert report.placements == {}
    assert report.chain is not None
    assert (report.chain.outrun, report.chain.returned) == (("d/urgent",), 2)
    assert "before d/urgent, which keeps waiting" in report.chain.sentence


def test_replacement_of_a_daemon_sets_only_pod_comes_after_the_preemptor() -> None:
    """The deletion of the only victim wakes the preemptor before the DaemonSet's controller creates a pod."""
    report = simulate_anti_affine_pod()
    assert report.placements == {"d/urgent": "n1"}
    assert [(e.pod, e.fate) for e in report.evicted] == [("d/agent", "Pending")]


def test_settling_follows_the_chain() -> None:
    objects = [
        *CLASSES,
        build_node("n1"),
        build_node("n2"),
        build_owned_pod("ReplicaSet", "mid", "n1", "4", priority=50),
        build_owned_pod("ReplicaSet", "low", "n2", "4", priority=0),
        build_pod("urgent", cpu="4", priority=100, **build_node_selector("n1")),
    ]
    rest = settle(Cluster.from_objects(objects))
    assert (list(rest.waiting), rest.placed, rest.evicted) == (["d/low"], 2, ("d/mid", "d/low"))


def test_victims_do_not_count_for_the_manifests_workload() -> None:
    """Two pods of 4 cores evict two pods of 4 cores from the only nodes.

    The victims stay pending and are not of the workload.
    """
    objects = [
        build_node("n1"),
        build_node("n2"),
        *(build_owned_pod("ReplicaSet", f"w{n}", f"n{n}", "4") for n in (1, 2)),
    ]
    template = build_pod_spec("4", priorityClassName="high")
    report = run(objects, build_workload("Deployment", "urgent", {"replicas": 2}, template))
    assert (report.placed, report.unplaced) == (2, 0)
    assert report.chain is not None
    assert (report.chain.pending, report.build_headline_parts()[1]) == (
        2,
        "2 of 2 pods get a node, 2 pods evicted, none of which gets another node, "
        "2 workloads left without a running pod",
    )


def find_class_remedies(*objects: Json) -> Remedies:
    """Return the fixes of the waiting pod d/waiting by a higher PriorityClass."""
    cluster = Cluster.from_objects([CLASSES[0], *objects])
    return find_pod_remedies(
        find_or_create_target(cluster, "d/waiting"), RemedyCriteria(only=frozenset({"UsePriorityClass"}))
    )


def test_class_whose_victims_return_is_no_fix() -> None:
    """The agent's DaemonSet recreates it before web has terminated, and its only obstacle is not the nominated pod's
    affinity."""
    waiting = build_pod("waiting", cpu="2", **build_node_selector("n1"), **build_anti_affinity("agent"))
    agent = build_owned_pod("DaemonSet", "agent", "n1", "500m", **build_node_selector("n1"))
    found = find_class_remedies(build_node("n1"), agent, build_owned_pod("ReplicaSet", "web", "n1", "3"), waiting)
    assert found.remedies == ()
    assert any("but their replacements would take the node first" in line for line in found.impossible)


def test_fix_by_a_class_names_the_victims_fate() -> None:
    """urgent evicts mid, whose replacement evicts low from n2. low stays pending."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_owned_pod("ReplicaSet", "mid", "n1", "4", priority=50),
        build_owned_pod("ReplicaSet", "low", "n2", "4", priority=0),
    ]
    (fix,) = find_class_remedies(*objects, build_pod("waiting", cpu="4", **build_node_selector("n1"))).remedies
    assert fix.victims == ("d/mid", "d/low")
    assert fix.chain is not None
    assert (fix.chain.moved, fix.chain.pending, fix.chain.evicted_in_turn) == (1, 1, ("d/low",))
    assert fix.weakens == (
        "the pod can then preempt any pod of lower priority; evicts d/mid, d/low: 1 gets another node, 1 stays "
        "Pending, and 1 replacement evicts d/low in turn; pod d/waiting is deleted and recreated"
    )


def test_one_of_two_equal_victims_is_named_with_the_other() -> None:
    """Both pods have the same priority and no start time, and urgent needs the room of one of them."""
    objects = [build_node("n1"), *(build_owned_pod("ReplicaSet", name, "n1", "2") for name in ("a", "b"))]
    report = run(objects, build_pod("urgent", cpu="2", priorityClassName="high"))
    (evicted,) = report.evicted
    assert {evicted.pod, *evicted.tied} == {"d/a", "d/b"}
    (fix,) = find_class_remedies(*objects, build_pod("waiting", cpu="2")).remedies
    assert fix.weakens == (
        "the pod can then preempt any pod of lower priority; "
        f"evicts either {evicted.pod} or {evicted.tied[0]}, which stays Pending; pod d/waiting is deleted and recreated"
    )


def test_equal_pod_that_is_too_small_is_not_named() -> None:
    """urgent needs 3 of 4 cores. Only evicting the pod of 3 cores makes room, not the pod of 1 core."""
    objects = [
        build_node("n1"),
        build_owned_pod("ReplicaSet", "large", "n1", "3"),
        build_owned_pod("ReplicaSet", "small", "n1", "1"),
    ]
    (evicted,) = run(objects, build_pod("urgent", cpu="3", priorityClassName="high")).evicted
    assert (evicted.pod, evicted.tied) == ("d/large", ())


def test_two_of_three_equal_victims() -> None:
    """A node of 6 cores has three pods of 2. A pod of 4 cores needs the room of two of them."""
    objects = [build_node("n1", cpu="6"), *(build_owned_pod("ReplicaSet", name, "n1", "2") for name in ("a", "b", "c"))]
    (fix,) = find_class_remedies(*objects, build_pod("waiting", cpu="4")).remedies
    assert fix.chain is not None
    named = fix.chain.name_victims(fix.victims)
    number, _, pods = named.partition(" of ")
    assert (number, sorted(pods.split(", "))) == ("any 2", ["d/a", "d/b", "d/c"])


def test_start_time_decides_between_victims() -> None:
    running = [build_owned_pod("ReplicaSet", name, "n1", "2") for name in ("a", "b")]
    for second, made in enumerate(running):
        made["status"]["startTime"] = f"2026-01-01T00:00:0{second}Z"
    (evicted,) = run([build_node("n1"), *running], build_pod("urgent", cpu="2", priorityClassName="high")).evicted
    assert (evicted.pod, evicted.tied) == ("d/b", ())


def test_drain_follows_victims_of_displaced_pods() -> None:
    """mid leaves n1 and evicts low from n2. Its replacement fits nowhere, since n1 is cordoned."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_owned_pod("ReplicaSet", "mid", "n1", "4", priority=50),
        build_owned_pod("ReplicaSet", "low", "n2", "4", priority=0),
    ]
    report = drain_nodes(Cluster.from_objects(objects), ["n1"])
    assert [(moved.pod, moved.target) for moved in report.moved] == [("d/mid", "n2")]
    assert report.chain is not None
    assert report.chain.sentence == "evicts 1 pod, which stays Pending"


@pytest.mark.parametrize(("limit", "fate"), [(0, "Lost"), (3, "Pending")])
def test_job_without_retries_creates_no_replacement(limit: int, fate: str) -> None:
    job = {**build_workload("Job", "run", {"backoffLimit": limit}), "apiVersion": "batch/v1"}
    objects = [build_node("n1"), job, build_owned_pod("Job", "run", "n1", "4")]
    (evicted,) = run(objects, build_pod("urgent", cpu="4", priorityClassName="high")).evicted
    assert evicted.fate == fate


def test_waiting_pod_that_ends_with_its_job_is_not_listed_as_pending() -> None:
    job = {**build_workload("Job", "run", {"backoffLimit": 0}), "apiVersion": "batch/v1"}
    owner = {"kind": "Job", "name": "run"}
    urgent = build_pod("urgent", cpu="4", priority=100)
    objects = [build_node("n1"), job, build_owned_pod("Job", "run", "n1", "4"), build_pod("idle", "", "4", owner)]
    report = run([*objects, urgent], pending=True)
    assert (report.placed, report.unplaced, report.pending, report.waiting_ended) == (1, 0, (), ("d/idle",))
    assert "1 of 2 pods gets a node, 1 ends with its failed Job, 1 pod evicted" in str(report)


def test_terminating_pod_is_not_lost() -> None:
    """Its controller has replaced it already."""
    terminating = build_owned_pod("ReplicaSet", "low", "n1", "4", priority=0)
    terminating["metadata"]["deletionTimestamp"] = "2026-05-06T09:12:00Z"
    report = run([build_node("n1"), terminating], build_pod("urgent", cpu="4", priorityClassName="high"))
    assert [evicted.fate for evicted in report.evicted] == ["Deleted"]
    assert report.chain is not None
    assert (report.chain.evicted, report.chain.lost, report.chain.deleted) == (0, 0, 1)
    assert report.chain.sentence == "evicts 1 pod, which was being deleted anyway"

    # It counts nowhere as evicted, and its workload is not stopped
    assert (report.evicted_pods, report.outages, report.violated_budgets) == (0, (), {})
    preempted = "1 pod preempted that was being deleted anyway"
    assert str(report) == f"All scheduled: 1 of 1 pod gets a node, {preempted}"
    assert not report.find_ci_gate_problems()
    brief = report.summary()
    assert (brief.victims, brief.figures["evicted"]) == ((), 0)
    assert brief.warnings == ("waits until d/low, already terminating, is gone",)


def test_evicting_a_terminating_pod_costs_its_workload_nothing() -> None:
    """The Deployment has created the other pod already, which waits for this node with and without urgent."""
    terminating = build_owned_pod("ReplicaSet", "low", "n1", "4", priority=0)
    terminating["metadata"]["deletionTimestamp"] = "2026-05-06T09:12:00Z"
    replacement = build_owned_pod("ReplicaSet", "low", "", "4", priority=0)
    replacement["metadata"]["name"] = "low-2"
    objects = [build_node("n1"), terminating, replacement, build_budget(0, "low")]
    report = run(objects, build_pod("urgent", cpu="4", priorityClassName="high"))
    assert [evicted.pod for evicted in report.evicted] == ["d/low"]
    assert (report.evicted_pods, report.outages, report.violated_budgets) == (0, (), {})
    assert report.summary().victims == ()
    assert report.summary().figures["evicted"] == 0
    assert not report.find_ci_gate_problems()
    assert "1 of 1 pod gets a node, 1 pod preempted that was being deleted anyway." in " ".join(
        report.build_headline_parts()
    )


def test_drain_that_evicts_only_terminating_pods_elsewhere_is_safe() -> None:
    moved = build_owned_pod("ReplicaSet", "mid", "n1", "4", priority=50)
    terminating = build_owned_pod("ReplicaSet", "low", "n2", "4", priority=0)
    terminating["metadata"]["deletionTimestamp"] = "2026-05-06T09:12:00Z"
    cluster = Cluster.from_objects([*CLASSES, build_node("n1"), build_node("n2"), moved, terminating])
    report = drain_nodes(cluster, ["n1"])
    assert [(evicted.pod, evicted.fate) for evicted in report.evicted] == [("d/low", "Deleted")]
    assert report.safe
    assert report.evicted_elsewhere == ()
    assert report.summary().figures["evicted"] == 0


def test_answer_is_not_good_if_running_pods_lose_their_node() -> None:
    objects = [build_node("n1"), build_owned_pod("ReplicaSet", "low", "n1", "4", priority=0)]
    report = run(objects, build_pod("urgent", cpu="4", priorityClassName="high"))
    assert (report.placed, report.unplaced, report.homeless_pods) == (1, 0, 1)
    assert report.build_headline_parts()[0] == "1 running pod loses its node:"
    assert report.summary().verdict == "Scheduled, but running pods lose their nodes"
    objects.append(build_node("n2"))
    report = run(objects, build_pod("urgent", cpu="4", priorityClassName="high", **build_node_selector("n1")))
    assert (report.evicted_pods, report.homeless_pods) == (1, 0)
    assert report.build_headline_parts()[0] == "All scheduled:"
    assert report.summary().verdict == "All scheduled"


def build_random_cluster(seed: int) -> list[Json]:
    """Build up to 6 nodes with pods of all kinds of owners and up to 8 waiting pods, some with anti-affinity."""
    random = Random(seed)
    nodes = [
        build_node(f"n{i}", random.choice("ab"), cpu=str(random.randint(2, 6))) for i in range(random.randint(1, 6))
    ]

    def any_pod(name: str, where: str) -> Json:
        spec: Json = {"priority": random.choice([0, 0, 5, 10, 20])}
        if random.random() < 0.3:
            term: Json = {"labelSelector": {"matchLabels": {"app": random.choice("xyz")}}}
            term |= {"topologyKey": random.choice([HOSTNAME, ZONE])}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        kind = random.choice(["ReplicaSet", "ReplicaSet", "DaemonSet", "StatefulSet", "Job", None])
        if kind == "DaemonSet":
            spec |= build_node_selector(where or "n0")
        owner = {"kind": kind, "name": f"o{random.randint(0, 4)}"} if kind else None
        made = build_pod(name, where, str(random.choice([1, 1, 2, 3])), owner, **spec)
        made["metadata"]["labels"] = {"app": random.choice("xyz")}
        return made

    pods: list[Json] = [any_pod(f"w{i}", "") for i in range(random.randint(1, 8))]
    for each in nodes:
        free = int(each["status"]["allocatable"]["cpu"])
        while free > 0 and random.random() < 0.9:
            made = any_pod(f"p{len(pods)}", each["metadata"]["name"])
            free -= int(made["spec"]["containers"][0]["resources"]["requests"]["cpu"])
            pods += [made] if free >= 0 else []
    return [*nodes, *pods]


@pytest.mark.parametrize("seed", range(60))
def test_settled_cluster_is_stable(seed: int) -> None:
    """No node is overfull, no pod is lost unless no controller recreates it, and every pending pod fits nowhere."""
    cluster = Cluster.from_objects(build_random_cluster(seed))
    rest = settle(cluster)
    there = {pod.key: pod for pod in rest.cluster.pods}
    assert {key for key, pod in there.items() if not pod.spec.node_name} == set(rest.waiting)
    assert all(find_owner(pod).kind == "Pod" for pod in cluster.pods if pod.key not in there)
    scheduler = Scheduler(rest.cluster)
    assert (scheduler.view.requested <= scheduler.view.allocatable).all()
    assert not any(explain_pod(scheduler, there[key]).feasible for key in rest.waiting)
