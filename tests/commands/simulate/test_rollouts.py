"""Check rollouts of existing workloads by the rules of their controllers: which pods stay, go and come, and how far it
gets."""

from __future__ import annotations

import pytest
from small import Json, build_node, build_pod, build_pod_spec, build_replica, build_workload

from kschedctl.cluster import Cluster
from kschedctl.commands.simulate import simulate
from kschedctl.commands.simulate.report import SimulationReport, WorkloadPlacement
from kschedctl.errors import InputError
from kschedctl.replay.controllers.plan_change import rank_for_removal
from kschedctl.replay.controllers.workload_change import resolve_share

HIGH = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}


def run(objects: list[Json], *manifests: Json, rollout: bool = False) -> SimulationReport:
    return simulate(Cluster.from_objects(objects), manifests, rollout=rollout)


def get_counts(found: WorkloadPlacement) -> tuple[int, int, int, int]:
    """Return the numbers of created, running, pending and removed pods."""
    return found.created, found.running, found.pending, found.removed


# -- Deployments --------------------------------------------------------------------------------------------------


def build_web(replicas: int, cpu: str = "1", **spec: object) -> Json:
    return build_workload("Deployment", spec={"replicas": replicas, **spec}, template=build_pod_spec(cpu))


def build_rolling_update(surge: int | str, unavailable: int | str) -> Json:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def build_replicas(number: int) -> list[Json]:
    return [build_replica(f"web-5f-{i}", "n1") for i in range(number)]


@pytest.mark.parametrize(
    ("cpu", "new_cpu", "strategy", "expected", "rollout"),
    [
        # one core is free: 1 surge pod comes, 1 old one goes, and so on
        ("5", "1", build_rolling_update(1, 0), (4, 4, 0, 4), "complete"),
        # 25 % of 4 is 1 of both; the surge pod waits until an old one went
        ("4", "1", {}, (4, 4, 0, 4), "complete"),
        # both round to 0, so that one may be missing
        ("4", "1", build_rolling_update("0%", "10%"), (4, 4, 0, 4), "complete"),
        # the surge pod waits, 1 old pod goes, a second one comes: 5 pods, of which the 3 that must run do, 2 of 5 cores
        ("5", "3", build_rolling_update(1, 1), (2, 3, 2, 1), "stuck: 0 of 4 new pods run, 3 old pods are left"),
        # all old pods go first: of 3 cores each one fits
        ("5", "3", {"type": "Recreate"}, (4, 1, 3, 4), "stuck: 1 of 4 new pods runs, 0 old pods are left"),
    ],
    ids=["surge", "default", "rounded to zero", "stuck", "Recreate"],
)
def test_rollout_of_a_deployment(
    cpu: str, new_cpu: str, strategy: Json, expected: tuple[int, int, int, int], rollout: str
) -> None:
    report = run(
        [build_node("n1", cpu=cpu), *build_replicas(4)], build_web(4, new_cpu, strategy=strategy), rollout=True
    )
    (found,) = report.workloads
    assert (get_counts(found), found.rollout) == (expected, rollout)


@pytest.mark.parametrize(
    ("surge", "unavailable", "stuck"), [(1, 0, ("Deployment d/web",)), (1, 1, ())], ids=["no room to surge", "in place"]
)
def test_replacing_pods_at_once_names_stuck_rollouts(surge: int, unavailable: int, stuck: tuple[str, ...]) -> None:
    """The four old pods fill the node. All new pods fit once the old ones are gone."""
    manifest = build_web(4, strategy=build_rolling_update(surge, unavailable))
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "web:2"
    report = run([build_node("n1"), *build_replicas(4)], manifest)
    assert (report.placed, report.unplaced, report.stuck_rollouts) == (4, 0, stuck)
    assert report.good == (not stuck)
    verdict, sentence = report.build_headline_parts()
    if stuck:
        assert verdict == "1 rollout stuck:"
        assert sentence.startswith(
            "Deployment d/web cannot replace its pods step by step (--rollout shows why); 4 of 4"
        )
        assert [problem.object for problem in report.find_ci_gate_problems()] == ["Deployment d/web"]
    else:
        assert verdict == "All scheduled:"


def test_pods_that_a_rollout_does_not_create() -> None:
    report = run(
        [build_node("n1"), *build_replicas(4)], build_web(4, strategy=build_rolling_update(1, 0)), rollout=True
    )
    assert [(group.verdict, len(group.pods)) for group in report.pending] == [("Unschedulable", 1), ("NotCreated", 3)]
    assert (report.placed, report.unplaced) == (0, 4)


def test_surge_is_rounded_up_and_unavailable_pods_down() -> None:
    assert [resolve_share("25%", number, round_up=True) for number in (1, 3, 4, 10)] == [1, 1, 1, 3]
    assert [resolve_share("25%", number, round_up=False) for number in (1, 3, 4, 10)] == [0, 0, 1, 2]
    with pytest.raises(InputError, match="a valid percent string must be a numeric string") as caught:
        run([build_node("n1")], build_web(1, strategy=build_rolling_update("some", 1)), rollout=True)
    assert caught.value.where == "Deployment d/web"


def test_only_pods_of_older_templates_are_replaced() -> None:
    """A rollout was in progress. The pods of its new template stay."""
    newer = [build_replica(f"web-6a-{i}", "n1", cpu="2") for i in range(2)]
    for each in newer:
        each["metadata"]["labels"]["pod-template-hash"] = "6a"
        each["metadata"]["ownerReferences"][0]["name"] = "web-6a"
    (found,) = run([build_node("n1", cpu="8"), *build_replicas(2), *newer], build_web(3, "2")).workloads
    assert get_counts(found) == (1, 3, 0, 2)


def test_replicas_stay_unchanged_if_the_manifest_sets_none() -> None:
    manifest = build_web(0)
    del manifest["spec"]["replicas"]
    (found,) = run([build_node("n1"), *build_replicas(3)], manifest).workloads
    assert (found.desired, found.running, found.removed) == (3, 3, 0)
    assert run([build_node("n1")], manifest).workloads[0].desired == 1


def test_paused_deployment_only_scales() -> None:
    new = run([build_node("n1")], build_web(2, paused=True))
    assert (new.workloads[0].desired, new.assumed) == (0, ("Deployment d/web is paused: it creates no pods",))
    (found,) = run([build_node("n1"), *build_replicas(4)], build_web(2, "2", paused=True)).workloads
    assert get_counts(found) == (0, 2, 0, 2)


@pytest.mark.parametrize(
    ("cpu", "sentence"),
    [("5", "5 of 6 pods have a node, 4 of them from before"), ("4", "4 of 6 pods have a node, as before")],
)
def test_headline_of_a_scaled_workload_counts_the_pods_that_already_run(cpu: str, sentence: str) -> None:
    """Four pods with one core each run, and two more are wanted, which would be 0 of 2 without the others."""
    report = run([build_node("n1", cpu=cpu), *build_replicas(4)], build_web(6, paused=True))
    assert report.build_headline_parts()[1] == sentence


def test_order_in_which_pods_are_removed() -> None:
    """Pods are removed in this order: without a node, not running, not ready, with the most siblings on their node, the
    youngest. Upstream: pkg/controller/controller_utils.go."""
    some = [
        build_replica(name, where) for name, where in (("a", "n1"), ("b", "n1"), ("c", "n2"), ("d", "n3"), ("e", "n4"))
    ]
    some += [build_replica("idle"), build_replica("young", "n5"), build_replica("starting", "n6")]
    for each in some:
        each["metadata"]["creationTimestamp"] = "2024-01-01T00:00:00Z"
    some[6]["metadata"]["creationTimestamp"] = "2024-06-01T00:00:00Z"
    some[4]["status"]["conditions"] = []
    some[7]["status"] = {"phase": "Pending"}
    found = rank_for_removal(Cluster.from_objects(some).pods)
    assert [each.metadata.name for each in found] == ["idle", "starting", "e", "a", "b", "young", "c", "d"]


def test_pods_without_a_node_take_part() -> None:
    report = run([build_node("n1"), *build_replicas(2), build_replica("web-5f-9")], build_web(4))
    assert (get_counts(report.workloads[0]), report.placed) == ((1, 4, 0, 0), 2)


def test_evicted_pods_are_recreated() -> None:
    """The StatefulSet's pods are created one by one.

    The second one finds a full node and preempts the last web pod.
    """
    high = build_workload("StatefulSet", "high", {"replicas": 3}, build_pod_spec(priorityClassName="high"))
    report = run([build_node("n1"), HIGH], build_web(3), high)
    assert {found.workload: get_counts(found) for found in report.workloads} == {
        "Deployment d/web": (3, 1, 2, 0),
        "StatefulSet d/high": (3, 3, 0, 0),
    }
    assert (report.placed, report.unplaced, len(report.evicted)) == (4, 2, 2)
    assert sorted(report.placements) == ["d/high-0", "d/high-1", "d/high-2", "d/web-new-0"]


# -- StatefulSets -------------------------------------------------------------------------------------------------


def build_db(replicas: int, cpu: str = "1", **spec: object) -> Json:
    return build_workload("StatefulSet", "db", {"replicas": replicas, **spec}, build_pod_spec(cpu))


def build_members(number: int, *idle: int) -> list[Json]:
    owner = {"kind": "StatefulSet", "name": "db"}
    found = [build_pod(f"db-{i}", "" if i in idle else "n1", owner=owner) for i in range(number)]
    for each in found:
        each["metadata"]["labels"] = {"app": "db"}
    return found


def test_ordered_pods_wait_for_their_predecessors() -> None:
    report = run([build_node("n1", cpu="2")], build_db(5))
    assert [(group.verdict, group.pods) for group in report.pending] == [
        ("Unschedulable", ("d/db-2",)),
        ("NotCreated", ("d/db-3", "d/db-4")),
    ]
    report = run([build_node("n1", cpu="2")], build_db(5, podManagementPolicy="Parallel"))
    assert [(group.verdict, len(group.pods)) for group in report.pending] == [("Unschedulable", 3)]


@pytest.mark.parametrize("rollout", [False, True])
def test_pods_below_the_partition_stay(rollout: bool) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    report = run(
        [build_node("n1", cpu="8"), *build_members(4)], build_db(4, "2", updateStrategy=strategy), rollout=rollout
    )
    assert get_counts(report.workloads[0]) == (2, 4, 0, 2)
    assert sorted(report.placements) == ["d/db-2", "d/db-3"]


@pytest.mark.parametrize(
    ("manifest", "before", "cpu", "expected", "rollout"),
    [
        # db-2 and db-3 are created first, in order; then db-1 makes way
        (build_db(4, "2"), build_members(2), "6", (3, 3, 1, 1), "stuck: 2 of 4 new pods run, 1 old pod is left"),
        (build_db(2, "2"), build_members(4), "4", (2, 2, 0, 4), "complete"),
        (build_db(2), build_members(2, 0), "0", (0, 1, 0, 0), "stuck: 0 of 2 new pods run, 2 old pods are left"),
        (build_db(3, "4"), build_members(3), "4", (1, 2, 1, 1), "stuck: 0 of 3 new pods run, 2 old pods are left"),
    ],
    ids=["more replicas", "fewer replicas", "one waits already", "too large"],
)
def test_rollout_of_a_stateful_set(
    manifest: Json, before: list[Json], cpu: str, expected: tuple[int, int, int, int], rollout: str
) -> None:
    (found,) = run([build_node("n1", cpu=cpu), *before], manifest, rollout=True).workloads
    assert (get_counts(found), found.rollout) == (expected, rollout)


def test_stateful_sets_replace_pods_one_by_one() -> None:
    """Feature gate MaxUnavailableStatefulSet is off by default (pkg/features/kube_features.go)."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    manifest = build_db(3, "4", updateStrategy=strategy, podManagementPolicy="Parallel")
    report = run([build_node("n1"), *build_members(3)], manifest, rollout=True)
    assert get_counts(report.workloads[0]) == (1, 2, 1, 1)
    assert "MaxUnavailableStatefulSet" in report.assumed[0]


# -- DaemonSets ---------------------------------------------------------------------------------------------------

NODES = [build_node(f"n{i}") for i in range(4)]


def build_agent(cpu: str, **update: object) -> Json:
    strategy = {"type": "RollingUpdate", "rollingUpdate": update}
    return build_workload("DaemonSet", "agent", {"updateStrategy": strategy}, build_pod_spec(cpu))


def build_agent_pods() -> list[Json]:
    owner = {"kind": "DaemonSet", "name": "agent"}
    found = [build_pod(f"agent-{i}", f"n{i}", owner=owner) for i in range(4)]
    for each in found:
        each["metadata"]["labels"] = {"app": "agent"}
    return [*found, build_pod("other", "n2", cpu="3")]


@pytest.mark.parametrize(
    ("manifest", "expected", "rollout"),
    [
        # n2 has room for one core: its new pod waits, and nobody else may be missing
        (build_agent("3"), (3, 3, 1, 3), "stuck: 2 of 4 new pods run, 1 old pod is left"),
        # 30 % of 4 rounds up to 2
        (build_agent("3", maxUnavailable="30%"), (4, 3, 1, 4), "stuck: 3 of 4 new pods run, 0 old pods are left"),
        # n2 has no room for two; the others go on beside it
        (build_agent("1", maxSurge=2, maxUnavailable=0), (4, 4, 1, 3), "stuck: 3 of 4 new pods run, 1 old pod is left"),
        (
            build_agent("4", maxSurge=2, maxUnavailable=0),
            (2, 4, 2, 0),
            "stuck: 0 of 4 new pods run, 4 old pods are left",
        ),
        (build_agent("1"), (4, 4, 0, 4), "complete"),
    ],
    ids=["one", "share", "surge", "surge without room", "complete"],
)
def test_rollout_of_a_daemon_set(manifest: Json, expected: tuple[int, int, int, int], rollout: str) -> None:
    (found,) = run([*NODES, *build_agent_pods()], manifest, rollout=True).workloads
    assert (get_counts(found), found.rollout) == (expected, rollout)


def test_pods_stay_with_strategy_on_delete() -> None:
    manifest = build_workload("DaemonSet", "agent", {"updateStrategy": {"type": "OnDelete"}}, build_pod_spec("2"))
    report = run([*NODES, build_node("n4"), *build_agent_pods()], manifest, rollout=True)
    assert get_counts(report.workloads[0]) == (1, 5, 0, 0)
    assert "OnDelete" in report.assumed[0]
