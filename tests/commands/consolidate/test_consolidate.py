"""Compare `consolidate` with a naive loop of drains, and check what must hold afterwards; expected values by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random

import pytest
from control_plane import kubectl
from control_plane.running import run
from control_plane.store import Key
from control_plane.world import build_store
from small import HOSTNAME, ZONE, Json, build_budget, build_node, build_pod, build_replica, build_spread

from kschedctl.api.arrays import Row
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.packing.drains_in_turn import DrainsInTurn
from kschedctl.commands.consolidate.autoscalers import AutoscalerVerdicts, extract_karpenter_verdicts
from kschedctl.commands.consolidate.plan import ConsolidationCriteria, find_removable_nodes
from kschedctl.commands.consolidate.report import NodeConsolidation, ZoneLoss
from kschedctl.commands.consolidate.safety import remove_nodes_and_move_pods
from kschedctl.commands.drain import drain_nodes
from kschedctl.errors import UsageError
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.replay.edits import cordon_node
from kschedctl.replay.node_drain import NodeDrain, iter_moved_pods
from kschedctl.replay.parallel import Workers
from kschedctl.reports.karpenter import Disruption, DisruptionCommand, DisruptionMethod
from kschedctl.reports.placements import PoolChange
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation


def consolidate_nodes(objects: list[Json], **criteria: object) -> NodeConsolidation:
    return find_removable_nodes(Cluster.from_objects(objects), ConsolidationCriteria(**criteria))  # type: ignore[arg-type]


def list_removed_nodes(report: NodeConsolidation) -> list[str]:
    return [each.node for each in report.removable]


def drain_from_scratch(cluster: Cluster, order: list[str]) -> list[str]:
    """Drain the nodes in an order, each from scratch on a cluster without the removed ones, and return those."""
    found = []
    for name in order:
        report = drain_nodes(cluster, [name])
        if report.safe:
            cluster = remove_nodes_and_move_pods(cluster, [name], report.moved)
            found.append(name)
    return found


def build_unreachable_node(name: str) -> Json:
    """Build a node whose kubelet does not report. The scheduler has not tainted it yet."""
    found = build_node(name)
    found["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    return found


def test_last_ready_node_stays() -> None:
    """Unready and cordoned nodes do not count as remaining nodes."""
    report = consolidate_nodes(
        [build_unreachable_node("n1"), build_node("n2"), build_node("n3"), build_node("n4", unschedulable=True)]
    )
    assert list_removed_nodes(report) == ["n2"]
    assert [(staying.node, staying.why) for staying in report.staying] == [("n3", "it is the last ready node")]
    assert report.not_tried["not ready or not initialized"] == ("n1",)


def test_pods_of_unready_nodes_need_room() -> None:
    """n2 and n3 have 4 CPUs each. The pods of n1 need 5 of the 8 CPUs, so both nodes stay."""
    stateful = build_pod("db-0", "n1", "2", owner={"kind": "StatefulSet", "name": "db"})
    pods = [stateful, build_replica("r1", "n1", "3")]
    down = build_node("n1", cpu="8", taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}])
    report = consolidate_nodes([down, build_node("n2"), build_node("n3"), *pods])
    assert (list_removed_nodes(report), len(report.pods_of_unready_nodes)) == ([], 2)
    assert "room is kept for 2 pods of nodes that are not ready" in report.build_headline_parts()[0]
    assert "room is kept for 2 pods of nodes that are not ready" in report.summary().headline

    # The capacity of n1 does not count, neither now nor then
    cpu = next(share for share in report.requested if share.resource == "cpu")
    assert (cpu.before, cpu.after) == (0.0, 62.5)

    # A terminating pod whose replacement exists needs no room, and neither does a pod that nothing recreates
    pods[1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    report = consolidate_nodes([down, build_node("n2"), build_node("n3"), *pods, build_pod("alone", "n1", "3")])
    assert (len(list_removed_nodes(report)), report.pods_of_unready_nodes) == (1, ("d/db-0",))


@pytest.mark.parametrize("seed", range(12))
def test_plan_equals_a_naive_loop_of_drains(seed: int) -> None:
    """The order is the same.

    A removed node is cordoned here but deleted in the loop, which makes no difference without spreading.
    """
    random = Random(seed)
    objects = [build_node(f"n{i}", random.choice("ab"), cpu=str(random.choice((3, 4, 6)))) for i in range(5)]
    for number in range(random.randint(3, 9)):
        owner = {"kind": "ReplicaSet", "name": "web-5f"} if random.random() < 0.85 else None
        objects.append(build_pod(f"p{number}", f"n{random.randrange(5)}", random.choice(("300m", "500m")), owner))
    if random.random() < 0.5:
        objects.append(build_budget(1))
    report = consolidate_nodes(objects)
    order = [*list_removed_nodes(report), *(each.node for each in report.staying)]
    usage = {
        name: sum(_get_cpu(o) for o in objects if o["spec"].get("nodeName") == name)
        / _get_allocatable_cpu(objects, name)
        for name in order
    }
    assert len(list_removed_nodes(report)) >= len(
        drain_from_scratch(Cluster.from_objects(objects), sorted(order, key=lambda name: (usage[name], name)))
    )
    assert drain_from_scratch(Cluster.from_objects(objects), list_removed_nodes(report)) == list_removed_nodes(report)
    assert report.tried == report.candidates == len(order)


def _get_cpu(each: Json) -> int:
    return int(each["spec"]["containers"][0]["resources"]["requests"]["cpu"].removesuffix("m"))


def _get_allocatable_cpu(objects: list[Json], name: str) -> int:
    return next(1000 * int(o["status"]["allocatable"]["cpu"]) for o in objects if o["metadata"]["name"] == name)


def test_empty_node_is_removed_first_and_the_other_has_a_reason() -> None:
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_node("n3"),
        build_replica("a", "n1", "3"),
        build_replica("b", "n2", "2"),
    ]
    report = consolidate_nodes(objects)
    assert list_removed_nodes(report) == ["n3"]
    assert [(each.node, each.pod) for each in report.staying] == [("n2", "d/b"), ("n1", "d/a")]
    assert "1 Insufficient cpu" in report.staying[0].why
    assert report.saves["cpu"] == 4000


def test_bare_pods_and_budgets_keep_nodes() -> None:
    objects = [build_node("n1"), build_node("n2"), build_pod("alone", "n1"), build_budget(0), build_replica("r", "n2")]
    report = consolidate_nodes(objects)
    assert {each.node: each.pod for each in report.staying} == {"n1": "d/alone", "n2": "d/r"}


def test_pending_pods_come_first() -> None:
    """The pending pod needs the empty node."""
    objects = [build_node("n1"), build_node("n2"), build_replica("a", "n1", "3"), build_replica("new", "", "3")]
    assert list_removed_nodes(consolidate_nodes(objects)) == []


def test_headroom() -> None:
    """1 of 8 CPUs is requested. Without one node, 25 % of 4 CPUs are, so that 75 % are free."""
    objects = [build_node("n1"), build_node("n2"), build_replica("a", "n1", "1")]
    assert list_removed_nodes(consolidate_nodes(objects, headroom=75.0)) == ["n2"]
    report = consolidate_nodes(objects, headroom=76.0)
    assert list_removed_nodes(report) == []
    assert report.staying[0].why == "cpu: 75% would be free, --headroom requires 76%"


def test_additional_pods_must_still_fit() -> None:
    objects = [build_node("n1"), build_node("n2"), build_replica("a", "n1", "1"), build_pod("burst", "", "3")]
    assert list_removed_nodes(consolidate_nodes(objects, headroom_for=("d/burst",))) == ["n2"]
    for cpu, why in (("4", "would no longer fit"), ("5", "do not fit even before a node is removed")):
        objects[-1] = build_pod("burst", "", cpu)
        report = consolidate_nodes(objects, headroom_for=("d/burst",))
        assert list_removed_nodes(report) == []
        assert {each.why for each in report.staying} == {f"the pods of --headroom-for {why}"}


def test_loss_of_a_zone_gets_no_worse() -> None:
    """Each zone has two nodes of 4 CPUs, and 4 of 16 CPUs are requested.

    Three nodes could be removed, but each zone needs one alone.
    """
    objects = [build_node(f"{zone}{i}", zone) for zone in "ab" for i in (1, 2)]
    objects += [build_replica(f"r{i}", "a1", "1") for i in range(4)]
    assert len(list_removed_nodes(consolidate_nodes(objects))) == 3
    report = consolidate_nodes(objects, keep_zone_loss=True)
    left = {"a1", "a2", "b1", "b2"} - set(list_removed_nodes(report))
    assert {name[0] for name in left} == {"a", "b"}
    assert report.zones == (ZoneLoss("a", 0, 0), ZoneLoss("b", 0, 0))
    assert any(each.why.startswith("--keep-zone-loss") for each in report.staying)


def test_only_nodes_of_a_pool() -> None:
    objects = [build_node("n1"), build_node("n2"), build_node("n3"), build_replica("a", "n1", "1")]
    for each, pool in zip(objects[:3], ("x", "x", "y"), strict=True):
        each["metadata"]["labels"]["karpenter.sh/nodepool"] = pool
    report = consolidate_nodes(objects, pool="y")
    assert list_removed_nodes(report) == ["n3"]
    assert report.left_out == {"of another pool": 2}
    with pytest.raises(UsageError, match='pool "z" not found'):
        consolidate_nodes(objects, pool="z")


def test_pools_that_lose_nodes() -> None:
    """1 of 12 CPUs of two pools is requested, and the two empty nodes are removed."""
    objects = [build_node("n1"), build_node("n2"), build_node("n3"), build_replica("a", "n1", "1")]
    for each, pool in zip(objects[:3], ("x", "x", "y"), strict=True):
        each["metadata"]["labels"]["karpenter.sh/nodepool"] = pool
    pools = {each.pool: each for each in consolidate_nodes(objects).pools}
    x, y = pools["x"], pools["y"]
    assert (x.nodes_before, x.nodes_after, x.cpu_before, x.cpu_after) == (2, 1, 12.5, 25.0)
    assert (y.nodes_before, y.nodes_after, y.cpu_before, y.cpu_after) == (1, 0, 0.0, None)


def test_nodes_show_prices_and_autoscaler_decisions() -> None:
    cluster = Cluster.from_objects([build_node("n1"), build_node("n2"), build_replica("a", "n1", "1")])
    said = AutoscalerVerdicts("Karpenter", frozenset(), {"n2": "stays: no budget"})
    report = find_removable_nodes(cluster, prices={"n2": 0.5}, verdicts=said)
    assert (report.price, report.removable[0].price, report.removable[0].autoscaler) == (0.5, 0.5, "stays: no budget")
    assert report.build_headline_parts() == (
        "1 of 2 nodes can be removed, saving $0.5 an hour",
        "Karpenter removes no nodes in its next round; its verdict on n2: stays: no budget",
    )


def test_reasons_why_an_autoscaler_removes_fewer() -> None:
    """Three of four nodes could be removed. The autoscaler removes one, and two are too young for it."""
    said = AutoscalerVerdicts("Karpenter", frozenset({"n1"}), dict.fromkeys(("n2", "n3"), "stays: too young"), False)
    assert said.summarize(["n1", "n2", "n3"]) == (
        "Karpenter removes 1 node in its next round (not certain): n1; its verdict on n2, n3: stays: too young"
    )
    assert (
        AutoscalerVerdicts("Karpenter", frozenset({"n1"})).summarize(["n1"])
        == "Karpenter removes 1 node in its next round: n1"
    )


def test_each_moved_pod_is_counted_once() -> None:
    """Karpenter deletes n1, with two pods, and n2, with one pod."""
    command = DisruptionCommand("delete", ("n1", "n2"), 0.0, (), ())
    report = Disruption(
        multi=DisruptionMethod(commands=(command,)), moved_pods={"n1": ("d/a", "d/b"), "n2": ("d/c",), "n3": ("d/e",)}
    )
    verdicts = extract_karpenter_verdicts(report)
    assert verdicts.removed == {"n1", "n2"}
    assert verdicts.moved_pods == 3


def test_all_pods_have_nodes_after_the_plan() -> None:
    """Each drain is replayed from scratch after the drains before it."""
    cluster = Cluster.from_objects(
        [build_node(f"n{i}") for i in range(4)] + [build_replica(f"r{i}", f"n{i}", "1") for i in range(4)]
    )
    report = find_removable_nodes(cluster)
    assert len(list_removed_nodes(report)) == 3
    for each in report.removable:
        assert drain_nodes(cluster, [each.node]).safe
        cluster = remove_nodes_and_move_pods(cluster, [each.node], each.moves)
    assert len(cluster.nodes) == 1
    assert all(found.spec.node_name for found in cluster.pods)


def test_removed_zone_cannot_be_lost() -> None:
    report = consolidate_nodes([build_node("n1", "a"), build_node("n2", "b")], keep_zone_loss=True)
    assert list_removed_nodes(report) == ["n1"]
    assert [(loss.before, loss.after) for loss in report.zones] == [(0, 0), (0, 0)]


def test_drains_on_a_control_plane() -> None:
    """The commands run line by line, with controllers and the scheduler in between.

    No pod stays pending, and the nodes are empty.
    """
    scratch = {"volumes": [{"name": "scratch", "emptyDir": {}}]}
    objects = [build_node(f"n{number}", cpu="4") for number in range(4)]
    for number in range(4):
        web = build_replica(f"web-5f-{number}", f"n{number}", "1", **scratch)
        agent = build_pod(f"agent-{number}", f"n{number}", "100m", {"kind": "DaemonSet", "name": "agent"})
        agent["metadata"]["labels"] = {"app": "agent"}
        objects += [web, agent]
    report = consolidate_nodes(objects)
    assert len(report.commands) == 2  # three pods of 1 cpu fit beside an agent, four do not
    store = build_store(objects, "d/web-5f-0")
    for command in report.commands:
        kubectl.run(store, command)
        run(store)
        assert all(found["spec"].get("nodeName") for found in store.of_kind("Pod"))
    left = {found["spec"]["nodeName"] for found in store.of_kind("Pod") if found["metadata"]["labels"]["app"] == "web"}
    assert left.isdisjoint(list_removed_nodes(report))
    assert len(store.of_kind("Pod")) == 8


def build_constrained_cluster(seed: int) -> list[Json]:
    """Build nodes of two zones with pods that have spreading, affinity, priorities, host ports, budgets and taints."""
    random = Random(seed)
    names = [f"n{number}" for number in range(random.randint(3, 6))]
    tainted = {"taints": [{"key": "t", "effect": "NoSchedule"}]}
    objects = [
        build_node(
            name, random.choice("ab"), random.choice(("2", "3", "4")), **(tainted if random.random() < 0.2 else {})
        )
        for name in names
    ]
    kinds = [draw_workload(app, random) for app in ("a", "b", "c", "d")]
    for number in range(random.randint(5, 14)):
        app, cpu, spec = random.choice(kinds)
        owner = {"kind": "ReplicaSet", "name": app} if random.random() < 0.95 else None
        placed = build_pod(f"p{number}", random.choice([*names, *names, ""]), cpu, owner, **spec)
        placed["metadata"]["labels"] = {"app": app}
        objects.append(placed)
    if random.random() < 0.7:
        objects.append(build_budget(random.choice((0, 1, 2)), random.choice("abcd")))
    return objects


def draw_workload(app: str, random: Random) -> tuple[str, str, Json]:
    """Return the name, CPU and other spec fields of a workload."""
    spec: Json = {}
    if random.random() < 0.4:
        spec |= build_spread(random.choice((ZONE, HOSTNAME)), app)
    if random.random() < 0.5:
        kind = random.choice(("podAffinity", "podAntiAffinity"))
        term = {"labelSelector": {"matchLabels": {"app": random.choice("abcd")}}, "topologyKey": HOSTNAME}
        spec["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if random.random() < 0.4:
        spec["priority"] = random.choice((-10, 10, 100))
    if random.random() < 0.3:
        spec["tolerations"] = [{"operator": "Exists"}]
    return app, random.choice(("200m", "500m", "1", "2")), spec


@pytest.mark.parametrize("share", range(4))
def test_aborted_drain_gives_the_verdict_of_a_complete_one(share: int) -> None:
    """A drain that ends at the first pod that keeps its node gives the same verdict, and pods get the same nodes."""
    kept = emptied = 0
    for seed in range(share * 40, share * 40 + 40):
        scheduler = Scheduler(Cluster.from_objects(build_constrained_cluster(seed)))
        for row, name in enumerate(scheduler.view.nodes.names):
            trial = DrainsInTurn(scheduler, scheduler.view).drain_node(Row(row))
            changed = {Row(row): cordon_node(scheduler.view.nodes.objects[row])}
            simulation = Simulation(scheduler, scheduler.view.with_changes(scheduler.cluster, changed))
            whole = NodeDrain(simulation, [name])
            whole.run()
            unplaced = any(outcome.row < 0 for outcome in whole.outcomes.values())
            back = any(outcome.row == row for outcome in whole.outcomes.values())
            safe = not (whole.report_blocked_pods() or whole.lost or unplaced or whole.preemptions or back)
            assert (not trial.why) is safe, (seed, name, trial.why)
            if safe:
                assert list(trial.moved) == list(iter_moved_pods(whole)), (seed, name)
            emptied, kept = emptied + safe, kept + (not safe)
    assert min(emptied, kept) > 30


def test_drains_with_a_budget_on_a_control_plane() -> None:
    """The printed commands run one after the other. Budgets hold, and every pod gets the planned node."""
    replicas = [build_replica(f"web-5f-{i}", f"n{1 + i // 2}", "1") for i in range(4)]
    kept = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "d"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 3},
        "status": {"disruptionsAllowed": 1},
    }
    objects = [build_node("n1"), build_node("n2"), build_node("n3", cpu="2"), kept, *replicas]
    report = consolidate_nodes(objects)
    assert list_removed_nodes(report) == ["n3", "n1"]
    assert {move.target for each in report.removable for move in each.moves} == {"n2"}
    store = build_store(objects, "d/web-5f-0")
    for command in report.commands:
        kubectl.run(store, command)
        assert all(pod["spec"].get("nodeName") for pod in store.of_kind("Pod"))
    assert [pod["spec"]["nodeName"] for pod in store.of_kind("Pod")] == ["n2"] * 4
    assert all(store.objects[Key("Node", "", name)]["spec"]["unschedulable"] for name in ("n1", "n3"))


def test_drain_that_a_budget_blocks_is_not_printed() -> None:
    """It is also not carried out on the control plane."""
    kept = build_budget(0)
    kept["spec"]["minAvailable"] = 2
    objects = [
        build_node("n1"),
        build_node("n2"),
        kept,
        build_replica("web-5f-0", "n1", "1"),
        build_replica("web-5f-1", "n2", "1"),
    ]
    assert consolidate_nodes(objects).commands == ()
    with pytest.raises(Exception, match="waits for as long as a budget allows no eviction"):
        kubectl.run(build_store(objects, "d/web-5f-0"), "kubectl drain n1 --ignore-daemonsets --delete-emptydir-data")


@pytest.mark.parametrize(
    ("has_daemon", "spec", "options"),
    [
        (False, {}, ""),
        (True, {}, " --ignore-daemonsets"),
        (False, {"volumes": [{"name": "v", "emptyDir": {}}]}, " --delete-emptydir-data"),
        (True, {"volumes": [{"name": "v", "emptyDir": {}}]}, " --ignore-daemonsets --delete-emptydir-data"),
    ],
)
def test_drain_has_only_the_options_that_kubectl_needs(*, has_daemon: bool, spec: Json, options: str) -> None:
    daemon = build_pod("agent", "n1", "100m", owner={"kind": "DaemonSet", "name": "agent"})
    objects = [build_node("n1"), build_node("n2"), build_replica("web-5f-0", "n1", "1", **spec)]
    objects += [build_replica("web-5f-1", "n2", "2"), *([daemon] if has_daemon else [])]
    assert consolidate_nodes(objects).commands == (f"kubectl drain n1{options}",)


def test_pools_before_and_after() -> None:
    """Two nodes of 4 CPUs and 8Gi have 1 CPU requested each. One is removed, and the other gets both pods."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_replica("web-5f-a", "n1", "1"),
        build_replica("web-5f-b", "n2", "1"),
    ]
    for each in objects[:2]:
        each["metadata"]["labels"]["example.com/pool"] = "general"
    report = consolidate_nodes(objects)
    assert report.pools == (PoolChange("general", 2, 1, 2, 2, 25.0, 50.0, 0.0, 0.0),)
    page = RENDERERS["table"](report, Style())
    assert "Pools, before → after" in page
    assert "2 → 1" in page
    assert "Nodes that can be removed, in this order" in page


def test_cordoned_nodes_outside_the_pool_figures_are_named() -> None:
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_node("n3", unschedulable=True),
        build_replica("web-5f-a", "n1", "1"),
    ]
    for each in objects[:3]:
        each["metadata"]["labels"]["example.com/pool"] = "general"
    report = consolidate_nodes(objects)
    (pool,) = report.pools
    assert (pool.nodes_before, pool.cordoned) == (2, 1)
    assert "Not counted: 1 cordoned node in pool general and its pods." in RENDERERS["table"](report, Style())


def test_fitting_pending_pod_counts_only_afterwards() -> None:
    """2 pods of 1 CPU run on 2 nodes of 4. The third pod is pending, fits, and is on the remaining node afterwards."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_replica("web-5f-a", "n1", "1"),
        build_replica("web-5f-b", "n2", "1"),
    ]
    for each in objects:
        each["metadata"].setdefault("labels", {})["example.com/pool"] = "general"
    report = consolidate_nodes([*objects, build_pod("waits", "", "1")])
    assert report.fitting == 1
    assert report.pools == (PoolChange("general", 2, 1, 2, 3, 25.0, 75.0, 0.0, 0.0),)
    assert [(share.before, share.after) for share in report.requested if share.resource == "cpu"] == [(25.0, 75.0)]
    assert "The after values also include 1 pending pod that fits without these changes." in RENDERERS["table"](
        report, Style()
    )


def test_page_says_that_more_expensive_nodes_may_save_more() -> None:
    """The emptiest node is removed first, whatever it costs. The page says so if prices are known."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_replica("web-5f-a", "n1", "2"),
        build_replica("web-5f-b", "n2", "1"),
    ]
    cluster = Cluster.from_objects(objects)
    page = RENDERERS["table"](find_removable_nodes(cluster, prices={"n1": 0.2, "n2": 0.08}), Style())
    assert "The emptiest nodes are tried first, whatever they cost" in page
    assert "whatever they cost" not in RENDERERS["table"](find_removable_nodes(cluster), Style())


def test_no_pool_figures_without_removed_nodes() -> None:
    assert consolidate_nodes([build_node("n1"), build_replica("web-5f-a", "n1", "4")]).pools == ()


def test_several_workers_find_the_same_plan() -> None:
    """Some nodes are removed and some stay, with headroom and zones, and each worker sees the results of others.

    A new interpreter is started, because forked workers copy the memory of this process.
    """
    folders = [str(Path(__file__).parent), *sys.path]
    command = [sys.executable, "-c", "import test_consolidate; test_consolidate.compare_with_several_workers()"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    went, stayed = map(int, done.stdout.split())
    assert min(went, stayed) > 10


def compare_with_several_workers() -> None:
    """Compare two workers with one process, and print how many nodes went and stayed. Raises ValueError."""
    went = stayed = 0
    for seed in range(8):
        cluster = Cluster.from_objects(
            build_constrained_cluster(seed) + [build_node(f"more-{number}", "c") for number in range(3)]
        )
        criteria = ConsolidationCriteria(headroom=20.0 * (seed % 2), keep_zone_loss=seed % 3 == 0)
        alone = find_removable_nodes(cluster, criteria)
        if find_removable_nodes(cluster, criteria, workers=Workers(2)) != alone:
            raise ValueError(f"seed {seed}")
        went, stayed = went + len(alone.removable), stayed + len(alone.staying)
    print(went, stayed)


class Interrupting:
    """Ctrl-C after so many nodes."""

    def __init__(self, after: int) -> None:
        self.left = after

    def begin(self, what: str, total: int) -> Callable[[int], None]:
        assert total == 3
        return self.done

    def done(self, number: int) -> None:
        self.left -= number
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.parametrize("workers", [Workers(1), Workers(2)])
def test_interruption_prints_the_plan_so_far(workers: Workers) -> None:
    """All but the last of the three nodes of 4 CPUs could be removed.

    After one node, there is a plan for that node.
    """
    cluster = Cluster.from_objects(
        [build_node("n1"), build_node("n2"), build_node("n3"), build_replica("a", "n1", "1")]
    )
    report = find_removable_nodes(cluster, workers=workers, progress=Interrupting(1))
    assert (list_removed_nodes(report), report.tried, report.complete, report.interrupted) == (["n2"], 1, False, True)
    assert len(report.commands) == 1


def test_drains_name_deleted_data_and_pods_that_ask_to_stay() -> None:
    """Node n1 is emptied: a pod with an emptyDir and one with safe-to-evict: "false" move to n2."""
    scratch = build_replica("scratch", "n1", "1", volumes=[{"name": "v", "emptyDir": {}}])
    careful = build_replica("careful", "n1", "1")
    careful["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    other = build_replica("other", "n2", "3")
    cluster = Cluster.from_objects([build_node("n1", cpu="8"), build_node("n2", cpu="8"), scratch, careful, other])
    report = find_removable_nodes(cluster)
    assert [removable.node for removable in report.removable] == ["n1"]
    assert (report.loses_data, report.ask_to_stay) == (("d/scratch",), ("d/careful",))
    (fix,) = report.summary().fixes
    assert [cost.kind.value for cost in fix.costs] == ["Loses", "GivesUp", "Evicts"]
    drained = drain_nodes(cluster, ["n1"])
    assert (drained.loses_data, drained.ask_to_stay) == (("d/scratch",), ("d/careful",))
    assert "deletes the emptyDir data of d/scratch" in drained.summary().warnings


def test_node_that_pending_pods_need_once_empty_is_kept() -> None:
    """Each node of 4 CPUs has one pod of 1 CPU. A pending pod of 4 CPUs fits on either node once its pod has moved."""
    web = {"kind": "ReplicaSet", "name": "web-5f"}
    running = [build_pod("p1", "n1", "1", web), build_pod("p2", "n2", "1", web)]
    nodes = [build_node("n1", cpu="4"), build_node("n2", cpu="4")]
    report = consolidate_nodes([*nodes, *running, build_pod("big", "", "4", web)])
    assert list_removed_nodes(report) == []
    assert [(kept.node, kept.pod, len(kept.lets_run)) for kept in report.staying] == [("n1", "", 1), ("n2", "", 1)]
    assert str(report).startswith("None of 2 nodes can be removed; 2 nodes are kept for pending pods (n1, n2)")
    assert list_removed_nodes(consolidate_nodes([*nodes, *running, build_pod("huge", "", "5", web)])) == ["n1"]


def test_untried_nodes_are_named_and_empty_cordoned_nodes_are_removable() -> None:
    """n1 has to stay for its only pod. n2 is cordoned and runs only a DaemonSet pod. n3 also runs another pod. n2 was
    decided, so it is not among the untried nodes."""
    daemon = {"kind": "DaemonSet", "name": "agent"}
    cordoned = [build_node("n2", unschedulable=True), build_node("n3", unschedulable=True)]
    pods = [build_replica("a", "n1"), build_pod("agent-n2", "n2", "1", daemon), build_replica("b", "n3")]
    report = consolidate_nodes([build_node("n1"), *cordoned, *pods])
    assert (report.tried, report.left_out) == (1, {"already cordoned": 1})
    assert (report.not_tried, report.cordoned_empty) == ({"already cordoned": ("n3",)}, ("n2",))
    empty = "only n2, which is cordoned and empty, can be removed"
    assert str(report) == f"Not even the only node checked can be removed; {empty}"
    assert report.summary().headline == str(report)
    assert report.summary().warnings == ("not tried: n3 (already cordoned)",)
    assert "1 node already cordoned: n3" in RENDERERS["table"](report, Style())


def test_only_node_for_a_pending_pod_is_kept_even_if_empty() -> None:
    """d/big selects n2, where 1 CPU is missing. d/held selects the cordoned n3. n4 is of no use to either."""
    web = {"kind": "ReplicaSet", "name": "web-5f"}
    big = build_pod("big", "", "3", web, nodeSelector={"kubernetes.io/hostname": "n2"})
    daemon = build_pod("agent", "n2", "2", {"kind": "DaemonSet", "name": "agent"})
    held = build_pod("held", "", "1", web, nodeSelector={"kubernetes.io/hostname": "n3"})
    nodes = [
        build_node("n1"),
        build_node("n2"),
        build_node("n3", unschedulable=True),
        build_node("n4", unschedulable=True),
    ]
    report = consolidate_nodes([*nodes, build_replica("a", "n1", "3"), daemon, big, held])
    assert {kept.node: kept.lets_run for kept in report.staying} == {"n1": (), "n2": ("d/big",), "n3": ("d/held",)}
    assert report.staying[-1].why == "1 pending pod waits for room here and cannot run on any other node: d/held"
    assert (list_removed_nodes(report), report.cordoned_empty, report.not_tried) == ([], ("n4",), {})
    kept_nodes = "2 nodes, 1 of which is cordoned and was not checked, are kept for pending pods (n2, n3)"
    assert f"{kept_nodes}; only n4, which is cordoned and empty, can be removed" in str(report)


def test_one_of_two_nodes_for_a_pending_pod_is_kept() -> None:
    """d/big selects zone a, with n1 and n2, which are empty but too small for it because of DaemonSet pods."""
    web = {"kind": "ReplicaSet", "name": "web-5f"}
    daemons = [build_pod(f"agent-{name}", name, "2", {"kind": "DaemonSet", "name": "agent"}) for name in ("n1", "n2")]
    big = build_pod("big", "", "3", web, nodeSelector={"topology.kubernetes.io/zone": "a"})
    nodes = [build_node("n1", "a"), build_node("n2", "a"), build_node("n3", "b")]
    report = consolidate_nodes([*nodes, build_replica("a", "n3", "4"), *daemons, big])
    assert list_removed_nodes(report) == ["n1"]
    assert report.staying[0].lets_run == ("d/big",)


def test_room_is_kept_for_pods_of_unready_nodes() -> None:
    """n1 is unreachable, so its pod needs n2 or n3, and neither counts what is free on n1."""
    unreachable = build_node("n1", taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}])
    report = consolidate_nodes([unreachable, build_node("n2"), build_node("n3"), build_replica("a", "n1", "1")])
    assert len(list_removed_nodes(report)) == 1
    assert report.pods_of_unready_nodes == ("d/a",)
    assert str(report) == "1 of 3 nodes can be removed; room is kept for 1 pod of nodes that are not ready"
    cpu = next(share for share in report.requested if share.resource == "cpu")
    assert cpu.after == 25.0  # 1 of the 4 cpus of the only ready node


def test_answer_depends_on_pending_pods_of_other_schedulers() -> None:
    waiting = build_pod("train", "", "1", {"kind": "Job", "name": "train"})
    waiting["spec"]["schedulerName"] = "volcano"
    report = consolidate_nodes([build_node("n1"), build_node("n2"), waiting])
    assert list_removed_nodes(report) == ["n1"]
    condition = ", unless Pod d/train needs the capacity (not placed by kube-scheduler)"
    assert str(report) == report.summary().headline == f"1 of 2 nodes can be removed{condition}"


def test_no_node_is_removable_if_pods_were_not_read() -> None:
    cluster = Cluster.from_objects([build_node("n1")], assume_complete=False)
    report = find_removable_nodes(cluster)
    assert (report.removable, report.commands, report.undecided) == ((), (), True)
    assert str(report).startswith("Not known whether the only node can be removed (not certain: ")


def test_replays_and_not_the_time_limit_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is the same on a machine on which an hour passes between two looks at the clock."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_node("n3"),
        build_replica("a", "n1"),
        build_replica("b", "n2"),
        build_replica("c", "n3"),
    ]
    expected = consolidate_nodes(objects).to_dict()
    hours = count(step=3600)
    monkeypatch.setattr("time.monotonic", lambda: next(hours))
    assert consolidate_nodes(objects).to_dict() == expected
    assert len(expected["removable"]) == 2

    monkeypatch.setattr("kschedctl.commands.consolidate.plan.SEARCH_BUDGET", 3)
    limited = consolidate_nodes(objects)
    assert (limited.tried, limited.complete) == (2, False)
